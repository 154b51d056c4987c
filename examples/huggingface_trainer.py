"""Hugging Face's Trainer with calibration among its metrics.

    pip install . torch transformers accelerate
    python examples/huggingface_trainer.py

A very small BERT with random weights reads sentences of invented words of three kinds. It
predicts the kind that each sentence was drawn for. Nothing is downloaded.
"""

import tempfile

import numpy as np
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainingArguments,
    set_seed,
)

import calibrant

PAD, CLS, WORDS = 0, 1, 60  # words 2 to 61, of three kinds


def compute_metrics(prediction):
    """Return what the Trainer logs, as floats; it puts ``eval_`` before each name."""
    logits, labels = prediction  # of the whole evaluation set: logits, no probabilities
    report = calibrant.evaluate(logits, labels, logits=True, n_resamples=200)
    error = report["ece"]
    return {
        "accuracy": report["accuracy"].value,
        "log_loss": report["nll"].value,
        "ece": error.value,
        "ece_low": error.low,
        "ece_high": error.high,
        "ece_noise": error.floor.upper,
        "smooth_ece": report["smece"].value,
    }


class Sentences(torch.utils.data.Dataset):
    """Sentences of 12 words; the more words of a kind, the likelier it is the label."""

    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        words = rng.integers(0, WORDS, (n, 12))
        counts = np.stack([(words % 3 == kind).sum(axis=1) for kind in range(3)], axis=1)
        rates = np.exp(0.8 * counts)
        cumulative = np.cumsum(rates / rates.sum(axis=1, keepdims=True), axis=1)
        self.labels = (rng.random((n, 1)) > cumulative).sum(axis=1)
        self.words = np.concatenate([np.full((n, 1), CLS), words + 2], axis=1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        return {"input_ids": torch.tensor(self.words[row]), "labels": int(self.labels[row])}


def main(epochs=3):
    set_seed(0)
    config = BertConfig(
        vocab_size=WORDS + 2,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        num_labels=3,
        pad_token_id=PAD,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            learning_rate=3e-3,
            use_cpu=True,
            per_device_train_batch_size=32,
            per_device_eval_batch_size=256,
            seed=0,
            eval_strategy="epoch",
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=Sentences(1_500, seed=1),
            eval_dataset=Sentences(1_000, seed=2),
            compute_metrics=compute_metrics,
        )
        for callback in (
            PrinterCallback,
            ProgressCallback,
        ):  # this example prints its own
            trainer.remove_callback(callback)
        trainer.train()
        history = [entry for entry in trainer.state.log_history if "eval_ece" in entry]
        for entry in history:
            loss, error, noise = (
                entry[f"eval_{n}"] for n in ("log_loss", "ece", "ece_noise")
            )
            print(f"epoch {entry['epoch']:.0f}: log loss {loss:.3f}, ", end="")
            print(f"ECE {error:.3f}, noise floor {noise:.3f}")
        output = trainer.predict(trainer.eval_dataset)
    return {"history": history, "logits": output.predictions, "labels": output.label_ids}


if __name__ == "__main__":
    main()
