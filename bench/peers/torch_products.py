"""PyTorch's matrix products of a token of GPT-2: `torch_products.py DTYPE`.

For every line it reads, a batch size and a number of calls, it writes the seconds.
"""

import sys
import time

import torch

SIZES = ((768, 2304), (768, 768), (768, 3072), (3072, 768))
LAYERS, VOCABULARY = 12, 50_257


def main() -> None:
    """Answers until the input ends."""
    torch.set_grad_enabled(False)
    dtype = getattr(torch, sys.argv[1])

    def weight(*shape: int) -> torch.Tensor:
        return (torch.randn(*shape) * 0.02).to(dtype)

    layers = [
        [(weight(*size), weight(size[1])) for size in SIZES] for _ in range(LAYERS)
    ]
    table = weight(VOCABULARY, 768)
    for line in sys.stdin:
        batch, calls = map(int, line.split())
        x = torch.randn(batch, 768).to(dtype)
        began = time.perf_counter()
        for _ in range(calls):
            y = x
            for layer in layers:
                for kernel, bias in layer:
                    y = torch.addmm(bias, y[:, : kernel.shape[0]], kernel)
            torch.nn.functional.linear(y, table)
        print(time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    main()
