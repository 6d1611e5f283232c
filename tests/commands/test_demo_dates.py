"""`regard demo --train` goes through, from the corpus to the pictures; how well its models learn is for it to show."""

from pathlib import Path

from regard.commands import demo_dates


def test_it_goes_through(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo_dates, "TRAIN", 200)
    monkeypatch.setattr(demo_dates, "DEV", 10)
    monkeypatch.setattr(demo_dates, "TEST", 10)
    monkeypatch.setattr(
        demo_dates, "MODELS", {name: (model, rate, 101) for name, (model, rate, _) in demo_dates.MODELS.items()}
    )
    demo_dates.demo_dates(tmp_path)
    told = capsys.readouterr().out
    assert told.count("of unseen dates exactly right") == 2
    assert told.count("the 3rd of May, 1998 ->") == 2
    assert (tmp_path / "transformer.png").stat().st_size and (tmp_path / "rnn.png").stat().st_size


def test_the_corpus_is_the_same_every_time_and_has_no_date_in_two_splits(tmp_path):
    files = demo_dates.corpus(tmp_path / "one")
    again = demo_dates.corpus(tmp_path / "two")
    read = {split: [Path(path).read_text() for path in paths] for split, paths in files.items()}
    assert read == {split: [Path(path).read_text() for path in paths] for split, paths in again.items()}
    dates = [set(targets.split()) for _, targets in read.values()]
    assert sum(map(len, dates)) == len(set.union(*dates)) == demo_dates.TRAIN + demo_dates.DEV + demo_dates.TEST
