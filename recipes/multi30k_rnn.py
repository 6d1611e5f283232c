"""An RNN without attention on Multi30k, English to German: all of the source must pass through one fixed vector."""

from recipes.multi30k import arguments, run

if __name__ == "__main__":
    run(
        "RNN, no attention", "rnn", arguments(__doc__).parse_args(),
        steps=3000, precision="bf16", evaluate_every=500, save_every=250, average=4,
        optimizer={"rate": 2e-3, "schedule": "linear", "warmup": 200},
    )  # fmt: skip
