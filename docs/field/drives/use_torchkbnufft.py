import torch
import torchkbnufft as tk

image, omega = torch.randn(1, 1, 8, 8, dtype=torch.complex64, requires_grad=True), torch.randn(2, 12)
adj = tk.KbNufftAdjoint((8, 8))
adj(tk.KbNufft((8, 8))(image, omega), omega).abs().sum().backward()
mats = tk.calc_tensor_spmatrix(omega, (8, 8))
adj(tk.KbNufft((8, 8))(image, omega, interp_mats=mats), omega, interp_mats=mats).abs().sum().backward()
