"""A plain PyTorch loop that watches calibration, batch by batch.

    pip install ".[torch]" scikit-learn
    python examples/pytorch_loop.py

The network learns scikit-learn's handwritten digits from 500 images. Four in ten may have a
wrong label, and in the end the network memorises these. Nothing is downloaded.
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from calibrant.torch import CalibrationError, CalibrationReport, NegativeLogLikelihood


def batches(generator):
    """Return batches to train on, and to validate on, with labels as unreliable in both."""
    images, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    order = torch.randperm(len(labels), generator=generator)
    images, labels = images[order].float() / 16, labels[order]
    redrawn = torch.rand(len(labels), generator=generator) < 0.4
    labels[redrawn] = torch.randint(10, (int(redrawn.sum()),), generator=generator)
    train = TensorDataset(images[:500], labels[:500])
    valid = TensorDataset(images[500:], labels[500:])
    return (
        DataLoader(train, batch_size=32, shuffle=True, generator=generator),
        DataLoader(valid, batch_size=256),
    )


def validate(model, loader, *metrics):
    """Add every batch of the loader to the metrics."""
    model.eval()
    with torch.no_grad():
        for images, labels in loader:
            logits = model(images)
            for metric in metrics:
                metric.update(logits, labels)


def main(epochs=30):
    torch.manual_seed(0)
    train, valid = batches(torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    # The network returns logits, so declare them. The state of the metrics is a few
    # numbers, for any number of rows.
    ece = CalibrationError(
        "multiclass", num_classes=10, num_bins=15, closed="right", logits=True
    )
    log_loss = NegativeLogLikelihood(logits=True)
    history = []
    for epoch in range(1, epochs + 1):
        model.train()
        for images, labels in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
        validate(model, valid, ece, log_loss)
        history.append((ece.compute().item(), log_loss.compute().item()))
        if epoch in (1, 7, 15, epochs):
            print(
                f"epoch {epoch:2}: ECE {history[-1][0]:.3f}, log loss {history[-1][1]:.3f}"
            )
        ece.reset()  # else the next epoch is added to this one
        log_loss.reset()

    # Once, at the end: every measure with its interval. The state is a number a row.
    calibration = CalibrationReport(logits=True)
    validate(model, valid, calibration)
    report = calibration.compute()
    error, gap = report["ece"], report["mean_gap"]
    print(
        f"{report.n:,} images: ECE {error.value:.3f} ({error.low:.3f} to {error.high:.3f}),"
    )
    print(f"  noise floor {error.floor.upper:.3f} (95th percentile under calibration),")
    print(
        f"  mean confidence minus accuracy {100 * gap.value:+.0f} percentage points", end=""
    )
    print(f" (95 % CI {100 * gap.low:+.0f} to {100 * gap.high:+.0f})")
    return {"model": model, "valid": valid, "history": history, "report": report}


if __name__ == "__main__":
    main()
