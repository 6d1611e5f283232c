import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UsageProblem
from regard.text.frame import Frame

BERT = Frame((101,), (102,), (102,), segments=True)
ROBERTA = Frame((0,), (2, 2), (2,), segments=False)


def test_one_text():
    assert BERT.row([7, 8]) == ([101, 7, 8, 102], [0, 0, 0, 0])
    assert BERT.row([7, 8, 9], longest=4) == ([101, 7, 8, 102], [0, 0, 0, 0])
    assert BERT.row([]) == ([101, 102], [0, 0])


def test_a_pair():
    assert BERT.row([7], [8, 9]) == ([101, 7, 102, 8, 9, 102], [0, 0, 0, 1, 1, 1])
    assert ROBERTA.row([7], [8, 9]) == ([0, 7, 2, 2, 8, 9, 2], [0] * 7)
    assert BERT.row([7], []) == ([101, 7, 102, 102], [0, 0, 0, 1])


@given(st.integers(0, 20), st.integers(0, 20), st.integers(3, 50))
def test_the_longer_of_a_pair_is_cut_first(a, b, longest):
    ids, segments = BERT.row([1] * a, [2] * b, longest)
    ones, twos = ids.count(1), ids.count(2)
    assert ids == [101, *[1] * ones, 102, *[2] * twos, 102]
    assert len(ids) == len(segments) == min(longest, a + b + 3)
    if ones < a and twos < b:
        assert abs(ones - twos) <= 1
    elif ones < a:
        assert ones >= twos - 1
    elif twos < b:
        assert twos >= ones - 1


def test_no_room_for_the_special_tokens():
    with pytest.raises(UsageProblem, match=r"a row of 1 .* 2 or more"):
        BERT.row([7], longest=1)
    with pytest.raises(UsageProblem, match=r"a row of 3 .* 4 or more"):
        ROBERTA.row([7], [8], 3)


@pytest.mark.parametrize(
    "frame", [Frame((1,), (2,), (2,), True), Frame((), (), (), False, (3,)), Frame((), (2,), (2,), False)]
)
def test_many_rows_are_what_each_is(frame):
    texts = [[7, 8, 9], [], [5], [4, 5, 6, 7, 8]]
    assert frame.rows(texts, 4) == [frame.row(text, longest=4)[0] for text in texts]
    assert not any(sum(frame.row(text)[1]) for text in texts), "all of the first segment"
