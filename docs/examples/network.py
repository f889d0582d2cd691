"""A small network learns digits on a bf16 unit; then what it has learned is used without the unit."""

import torch
from sklearn.datasets import load_digits

import openmxu_sim.torch as mxu


def main(epochs: int = 15) -> tuple[float, float]:
    """Train, and give the accuracy on the unit and without it."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
    labels = torch.tensor(digits.target)
    train, test = slice(0, 1400), slice(1400, None)

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(256, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    with mxu.unit(operand="bf16") as unit:
        for _ in range(epochs):
            for batch in torch.randperm(1400).split(100):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(model(images[train][batch]), labels[train][batch])
                loss.backward()
                optimizer.step()
        on_unit = (model(images[test]).argmax(1) == labels[test]).float().mean().item()

    without = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"accuracy on the unit {on_unit:.4f}, in fp32 without it {without:.4f}")
    for work, count in unit.work.items():
        print(f"{count:5} times {work.operator}: {work.products} x ({work.m}, {work.k}) x ({work.k}, {work.n})")
    return on_unit, without


if __name__ == "__main__":
    main()
