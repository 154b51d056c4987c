"""A language model's confidences: what it says ("85%"), and what its tokens say.

    pip install ".[report]"
    python examples/language_model_confidences.py

The answers are simulated: 600 questions with four options each. Yours are JSON lines too:

    {"answer": "B", "confidence": "85%", "logprobs": {"A": -2.5, ...}, "correct": true}

    calibrant report answers.jsonl --score confidence --outcome correct --percent
"""

import json
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import numpy as np

import calibrant

OPTIONS = "ABCD"


def simulated(n, rng):
    """Yield answers of a model with over-confident tokens and even bolder words."""
    for _ in range(n):
        evidence = rng.normal(scale=1.5, size=4)
        truth = int(rng.choice(4, p=np.exp(evidence) / np.exp(evidence).sum()))
        logprobs = 1.6 * evidence - np.log(np.exp(1.6 * evidence).sum())
        best = int(np.argmax(logprobs))
        bold = np.exp(logprobs[best]) ** 0.4 + rng.normal(scale=0.05)
        stated = int(np.clip(5 * round(20 * bold), 0, 100))
        if rng.random() < 0.03:
            stated = 0  # "I do not know"
        yield {
            "answer": OPTIONS[best],
            "confidence": f"{stated}%",
            "logprobs": dict(zip(OPTIONS, np.round(logprobs, 4).tolist(), strict=True)),
            "truth": OPTIONS[truth],
            "correct": best == truth,
        }


def main(folder):
    path = Path(folder) / "answers.jsonl"
    answers = list(simulated(600, np.random.default_rng(0)))
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers))

    # From the file, by the command. Without --percent "85%" is an error, and so is 85.
    command = ["report", path.name, "--score", "confidence", "--outcome", "correct"]
    command += ["--percent"]
    run = subprocess.run(
        [sys.executable, "-m", "calibrant", *command],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    print("$ calibrant", *command)
    print(run.stdout.decode().split("\n\n")[1])

    # From Python, with the probability of the answer too: exp of the SUM of its tokens'
    # log-probabilities. Here an answer is one token.
    stated = np.array(
        [float(answer["confidence"].removesuffix("%")) / 100 for answer in answers]
    )
    tokens = np.exp([answer["logprobs"][answer["answer"]] for answer in answers])
    correct = [answer["correct"] for answer in answers]
    models = {"the stated confidence": stated, "the token probability": tokens}
    comparison = calibrant.compare(models, correct)
    print(textwrap.fill(comparison.verdict()[0], 88))

    # All options at once. Log-probabilities are logits: logits=True makes rows sum to 1.
    logits = [[answer["logprobs"][option] for option in OPTIONS] for answer in answers]
    truths = [OPTIONS.index(answer["truth"]) for answer in answers]
    report = calibrant.evaluate(logits, truths, logits=True)
    error, loss = report["ece"], report["nll"]
    print(f"the four options: ECE {error.value:.3f} ({error.low:.3f} to {error.high:.3f}),")
    print(f"  noise floor {error.floor.upper:.3f}, log loss {loss.value:.3f}")
    return {
        "path": path,
        "stated": stated,
        "tokens": tokens,
        "comparison": comparison,
        "report": report,
    }


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
