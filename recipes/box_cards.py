"""What the cards of the models in the box say beside scores: what each is, what it learned from, what it cannot do."""

from __future__ import annotations

from dataclasses import dataclass

from regard import __version__

RESEARCH = "Some of the data that models in the box learned from is for research use only: ask before you sell."
CAPTIONS = "Multi30k (Elliott et al., 2016): 29,000 captions of photographs and their translations"
TEXT = "29 million words of English: articles of Wikipedia, news, and books (pretrain-mini)"


@dataclass(frozen=True)
class About:
    title: str
    data: tuple[str, ...]
    use: str
    limits: tuple[str, ...]


def translator(source: str, target: str, use: str) -> About:
    return About(
        f"A Transformer that translates {source} to {target}",
        (CAPTIONS,),
        use,
        (
            "It knows the words of captions: people, animals, clothes, what they do and where. Of anything else it "
            "makes a caption all the same.",
            "One sentence at a time; of several in a line it may leave some out.",
        ),
    )


ENCODER = (
    "It is small, and reads English alone. Of the world it knows little: it fills in what is likely beside the words.",
    "It has what its texts have: their views of people too.",
    "It reads 256 pieces of a text.",
)
CARDS = {
    "translate-de-en": translator("German", "English", 'regard translate "Ein Mann fährt Fahrrad."'),
    "translate-en-de": translator("English", "German", 'regard translate --to de "A man rides a bicycle."'),
    "encoder": About(
        "An encoder that tells hidden words: ALBERT's shape, one layer read six times",
        (TEXT,),
        'regard fill "She put the [MASK] on the table."',
        ENCODER,
    ),
    "sentiment": About(
        "A classifier of sentiment: positive or negative",
        ("SST-2 (Socher et al., 2013): 67,349 phrases of film reviews, every other one written as people write", TEXT),
        'regard classify "A film that never comes to life."',
        (
            "It learned from film reviews, and knows no third label: of what has no sentiment it guesses one.",
            "Irony and negation at a distance mislead it.",
            *ENCODER[1:],
        ),
    ),
    "entities": About(
        "A tagger of entities: persons, organizations, locations and others",
        ("CoNLL-2003 (Tjong Kim Sang and De Meulder): 14,041 sentences of Reuters' news from 1996", TEXT),
        'regard tag "Angela Merkel met Tim Cook in Paris."',
        ("It goes by capitals: names in small letters are not found.", *ENCODER[1:]),
    ),
    "language-model": About(
        "A language model: GPT-2's shape",
        (TEXT,),
        'regard generate "The house stood on a hill"',
        (
            "It writes English that sounds like its texts; what it says is not true, and after some sentences not to "
            "the point.",
            "It was not taught to be kind or to follow instructions.",
            "It reads 256 pieces.",
        ),
    ),
}


def card(name: str, facts: dict[str, str], scores: dict[str, tuple[float, float]]) -> str:
    """A README.  Facts: such as the parameters and the command; scores: in float32 as trained, and in half as here."""
    about = CARDS[name]
    return "\n".join([
        f"# {name}", "", f"{about.title}. It comes with regard {__version__}.", "",
        f"- use: `{about.use}`",
        *(f"- data: {one}" for one in about.data),
        *(f"- {key}: {value}" for key, value in facts.items()), "",
        "| score | in float32 | in half precision, as here |", "| --- | ---: | ---: |",
        *(f"| {metric} | {full:.2f} | {half:.2f} |" for metric, (full, half) in scores.items()), "",
        "Limits:", "", *(f"- {one}" for one in about.limits), "",
        RESEARCH, "",
    ])  # fmt: skip
