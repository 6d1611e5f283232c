"""A Transformer on Multi30k, English to German."""

from recipes.multi30k import arguments, run

if __name__ == "__main__":
    run(
        "Transformer", "transformer-small", arguments(__doc__).parse_args(),
        steps=4000, precision="bf16", evaluate_every=500, save_every=200, average=10,
        optimizer={"rate": 3e-3, "warmup": 1000},
    )  # fmt: skip
