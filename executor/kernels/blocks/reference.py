"""What moving pages must do, in plain torch."""

from __future__ import annotations

import torch


def copy(tensor: torch.Tensor, pairs: torch.Tensor) -> None:
    for source, target in pairs.tolist():
        tensor[target].copy_(tensor[source])


def gather(tensor: torch.Tensor, pages: torch.Tensor, staging: torch.Tensor) -> None:
    for i, page in enumerate(pages.tolist()):
        staging[i].copy_(tensor[page])


def scatter(staging: torch.Tensor, tensor: torch.Tensor, pages: torch.Tensor) -> None:
    for i, page in enumerate(pages.tolist()):
        tensor[page].copy_(staging[i])
