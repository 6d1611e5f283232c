"""An RNN without attention on Multi30k, English to German: all of the source must pass through one fixed vector."""

from recipes.multi30k import arguments, run

if __name__ == "__main__":
    run(
        "RNN, no attention", "rnn", arguments(__doc__).parse_args(),
        steps=4000, precision="bf16", evaluate_every=250, save_every=250, average=5,
        optimizer={"rate": 1e-3, "schedule": "linear", "warmup": 200},
    )  # fmt: skip
