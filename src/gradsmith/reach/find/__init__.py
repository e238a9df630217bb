"""Which custom gradients a package, folder, module or file holds."""
