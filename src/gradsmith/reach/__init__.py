"""Reach: check a whole package, without writing inputs.

`find` says which custom gradients a package holds, `inputs` how to call each, `report` what came of it. The work on the
package itself, from its import to the last check, is done in a child process: what it breaks there costs one function.
"""
