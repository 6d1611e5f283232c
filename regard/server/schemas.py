"""What requests may say.  Every number has its bounds; a field that is not known is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt

MOST_TOKENS = 4096  # that may be written after a prompt
MOST_SAMPLES = 16
MOST_STOPS = 8
MOST_BEST = 50
MOST_ALTERNATIVES = 4  # of a translation: one fewer than the beams of a search

Name = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=2**20)]
Texts = Annotated[Text | list[Text], Field(description="A text, or several.")]
Identity = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]
ModelName = Annotated[Name | None, Field(description="A model that is served; by default the first that can.")]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, protected_namespaces=())

    model: ModelName = None


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    include_usage: StrictBool = False


class Completion(Asked):
    """As OpenAI has it.  What is not honoured here is refused unless it asks for nothing."""

    prompt: Annotated[
        Text | list[Text] | list[Identity] | list[list[Identity]], Field(description="Texts, or ids of tokens.")
    ] = ""
    max_tokens: Annotated[int | None, Field(ge=1, le=MOST_TOKENS)] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=1, le=2**31 - 1, description="Only the k most probable tokens.")] = None
    n: Annotated[int | None, Field(ge=1, le=MOST_SAMPLES)] = None
    stop: Annotated[str, Field(max_length=200)] | list[Annotated[str, Field(max_length=200)]] | None = None
    seed: Annotated[int | None, Field(ge=0, le=2**63 - 1)] = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    echo: StrictBool | None = None
    user: Name | None = None
    best_of: int | None = None
    logprobs: int | None = None
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None


class Embedding(Asked):
    input: Annotated[Text | list[Text] | list[Identity] | list[list[Identity]], Field(description="Texts, or ids.")]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    prompt_name: Annotated[
        Name | None, Field(description="Which of the model's prompts is put before each text; by default its default.")
    ] = None
    user: Name | None = None


class Translate(Asked):
    """As LibreTranslate has it; a form may be sent instead of JSON.  Each line is translated by itself."""

    q: Texts
    source: Annotated[str, Field(max_length=16, description="A language, or auto.")] = "auto"
    target: Annotated[str, Field(max_length=16)]
    format: Literal["text"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=MOST_ALTERNATIVES)] = 0
    api_key: Annotated[str | None, Field(max_length=1000)] = None


class Fill(Asked):
    text: Texts
    best: Annotated[int, Field(ge=1, le=MOST_BEST)] = 5


class Classify(Asked):
    text: Texts
    second: Annotated[Text | list[Text] | None, Field(description="Of pairs, the second texts.")] = None


class Tag(Asked):
    text: Texts


class Answer(Asked):
    question: Texts
    context: Annotated[Text | list[Text], Field(description="One for all questions, or one for each.")]


class Attention(Asked):
    text: Text
    second: Text | None = None
    target: Text | None = None
    write: Annotated[int | None, Field(ge=0, le=256)] = None


class Failure(BaseModel):
    message: str
    type: str
    param: str | None
    code: int


class ErrorBody(BaseModel):
    error: Failure


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": told}
    for status, told in {
        400: "Something in it cannot be done.",
        401: "The key is missing or wrong.",
        404: "There is no such model.",
        413: "It is too long.",
        422: "It is not in the form that is expected.",
        429: "Too much is waiting; Retry-After tells when to come again.",
        503: "The server is about to end, or lacks memory.",
        504: "There was no answer before the deadline.",
    }.items()
}
