"""A corpus on disk in parts: the rows of one in memory, none lost, whatever happens meanwhile."""

import collections
import json
import threading

import numpy as np
import pytest
from tiny import VOCABULARY, WORDS

from keras_bert_zoo import WordPieceTokenizer
from keras_bert_zoo.datasets.corpus import PretrainingCorpus
from keras_bert_zoo.datasets.corpus_folder import CorpusFolder
from keras_bert_zoo.datasets.documents import describe_files
from keras_bert_zoo.datasets.pretraining import pretraining_dataset


@pytest.fixture(scope="module")
def tokenizer():
    return WordPieceTokenizer(VOCABULARY)


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    return [
        [" ".join(rng.choice(WORDS, rng.integers(2, 9))) for _ in range(rng.integers(1, 9))]
        for _ in range(60)
    ]


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch):
    monkeypatch.setattr("keras_bert_zoo.datasets.corpus._TOKENIZED_AT_ONCE", 16)


def batches(corpus, count=None, length=24, size=8, **settings):
    dataset = pretraining_dataset(corpus, length, size, **settings)
    found = [
        {**inputs, **targets} for inputs, targets in dataset.take(-1 if count is None else count)
    ]
    return [{name: tensor.numpy() for name, tensor in batch.items()} for batch in found]


def assert_same(a, b):
    assert len(a) == len(b) > 0
    for one, other in zip(a, b, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"masking_unit": "whole_word", "data_noising": True, "start_step": 11, "seed": 5},
        {"next_sentence": False, "static_masks": 2},
        {"epochs": 2, "shuffle": False},
    ],
)
def test_a_corpus_of_one_part_gives_the_rows_of_one_in_memory(
    tmp_path, documents, tokenizer, settings
):
    memory = PretrainingCorpus.from_documents(documents, tokenizer, verbose=False)
    folder = CorpusFolder.write(tmp_path, iter(documents), tokenizer)
    assert len(folder.parts) == 1 and folder.token_count == memory.token_count
    assert folder.document_count == memory.document_count == 60
    np.testing.assert_array_equal(folder.unigram_counts, memory.unigram_counts)
    assert_same(batches(folder, 40, **settings), batches(memory, 40, **settings))


@pytest.fixture(scope="module")
def parts(tmp_path_factory, documents, tokenizer):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("keras_bert_zoo.datasets.corpus._TOKENIZED_AT_ONCE", 16)
        folder = tmp_path_factory.mktemp("parts")
        return CorpusFolder.write(folder, iter(documents), tokenizer, part_tokens=300)


def texts(rows, size):
    """How often each row occurs, its masked tokens put back, in each run of `size` rows."""
    whole = {name: np.concatenate([batch[name] for batch in rows]) for name in rows[0]}
    tokens = whole["token_ids"].copy()
    row, slot = np.nonzero(whole["masked_weights"])
    tokens[row, whole["masked_positions"][row, slot]] = whole["masked_ids"][row, slot]
    found = [tuple(row) for row in tokens.tolist()]
    return [
        collections.Counter(found[start : start + size]) for start in range(0, len(found), size)
    ]


def test_every_epoch_has_every_chunk_of_every_part_once(parts, documents, tokenizer):
    assert len(parts.parts) == 4
    # Documents are shorter than rows, so that nothing is cut off.
    settings = {"next_sentence": False, "short_sequence_rate": 0.0, "length": 80}
    memory = PretrainingCorpus.from_documents(documents, tokenizer, verbose=False)
    count = sum(len(batch["token_ids"]) for batch in batches(memory, epochs=1, **settings))
    (expected,) = texts(batches(memory, epochs=1, size=count, **settings), count)
    rows = batches(parts, epochs=3, **settings)
    assert [len(batch["token_ids"]) for batch in rows] == [8] * (3 * count // 8) + [3 * count % 8]
    assert texts(rows, count) == [expected] * 3
    # Parts come in another order in each epoch, and so do the chunks in them.
    tokens = np.concatenate([batch["token_ids"] for batch in rows]).reshape(3, count, -1)
    assert (tokens[0] != tokens[1]).any() and (tokens[1] != tokens[2]).any()
    assert {*map(tuple, tokens[0][:15].tolist())} != {*map(tuple, tokens[1][:15].tolist())}
    unshuffled = batches(parts, epochs=1, shuffle=False, size=count, **settings)
    in_order = batches(memory, epochs=1, shuffle=False, size=count, **settings)
    for name in ("padding_mask", "segment_ids"):
        np.testing.assert_array_equal(unshuffled[0][name], in_order[0][name])


@pytest.mark.parametrize("size", [8, 50])
def test_a_stream_of_parts_can_be_entered_anywhere(parts, size):
    whole = batches(parts, 30, size=size)
    for start in (1, 7, 29):
        assert_same(batches(parts, 30 - start, size=size, start_step=start), whole[start:])
    flat = {name: np.concatenate([batch[name] for batch in whole]) for name in whole[0]}
    single = batches(parts, 100, size=1)
    for name, array in flat.items():
        np.testing.assert_array_equal(
            array[:100], np.concatenate([batch[name] for batch in single])[: len(array)]
        )


def test_passes_through_a_dataset_draw_anew_from_the_same_place_on(parts):
    dataset = pretraining_dataset(parts, 24, 8, epochs=2, start_step=9)
    first, second = ([inputs["token_ids"].numpy() for inputs, _ in dataset] for _ in range(2))
    assert len(first) == len(second) == int(dataset.cardinality())
    assert [len(batch) for batch in first] == [len(batch) for batch in second]
    assert any((a != b).any() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("corpus", ["parts", "memory"])
@pytest.mark.parametrize("workers", [2, 3])
def test_the_rows_of_workers_are_those_of_one(parts, documents, tokenizer, corpus, workers):
    if corpus == "memory":
        parts = PretrainingCorpus.from_documents(documents, tokenizer, verbose=False)
    whole = batches(parts, 20, start_step=3)
    each = [
        batches(parts, 20, start_step=3, workers=workers, worker=worker)
        for worker in range(workers)
    ]
    joined = [
        {name: np.concatenate([batch[name] for batch in part]) for name in part[0]}
        for part in zip(*each, strict=True)
    ]
    assert_same(joined, whole)
    assert [len(one[0]["token_ids"]) for one in each] == ([4, 4] if workers == 2 else [2, 3, 3])
    for wrong in ({"epochs": 1, "size": 1000}, {"size": 1}):
        with pytest.raises(ValueError, match="a row of every batch"):
            batches(parts, 1, workers=2, **wrong)
    with pytest.raises(ValueError, match="received 2 of 2"):
        batches(parts, 1, workers=2, worker=2)


def test_left_to_right_rows_predict_every_token_from_those_before(parts, tokenizer):
    for batch in batches(parts, 5, left_to_right=True, next_sentence=False):
        ids, real = batch["token_ids"], batch["padding_mask"]
        assert (batch["masked_positions"] == np.arange(23)).all()
        np.testing.assert_array_equal(batch["masked_ids"], ids[:, 1:])
        np.testing.assert_array_equal(batch["masked_weights"], real[:, 1:])
        assert not (ids == tokenizer.mask_id).any()


def checksum_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if "chunks" not in path.name}


def test_an_interrupted_folder_is_finished_as_if_nothing_had_been(tmp_path, documents, tokenizer):
    settings = {"part_tokens": 300}
    whole = CorpusFolder.write(tmp_path / "whole", iter(documents), tokenizer, **settings)
    ended = tmp_path / "ended"

    def until(count):
        yield from documents[:count]
        raise KeyboardInterrupt

    for count in (3, 25, 45):
        with pytest.raises(KeyboardInterrupt):
            CorpusFolder.write(ended, until(count), tokenizer, **settings)
        with pytest.raises(ValueError, match="no finished corpus"):
            CorpusFolder(ended, tokenizer)
    index = json.loads((ended / "corpus.json").read_text("utf-8"))
    assert 0 < len(index["parts"]) < len(whole.parts)
    (ended / ".00003.tokens.123").write_bytes(b"of a process that was killed")
    found = CorpusFolder.write(ended, iter(documents), tokenizer, **settings)
    assert checksum_of_files(ended) == checksum_of_files(tmp_path / "whole")
    assert found.checksum == whole.checksum


def never():
    raise AssertionError("read again")
    yield


def test_what_is_there_is_not_made_again_but_for_other_text(
    tmp_path, documents, tokenizer, monkeypatch
):
    folder, text = tmp_path / "corpus", tmp_path / "text.txt"
    text.write_text("a film", encoding="utf-8")
    made = {"made_of": {"files": describe_files(text)}}
    first = CorpusFolder.write(folder, iter(documents), tokenizer, **made)
    assert CorpusFolder.write(folder, never(), tokenizer, **made).checksum == first.checksum
    batches(first, 1)
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    text.write_text("a film and another", encoding="utf-8")
    made = {"made_of": {"files": describe_files(text)}}
    second = CorpusFolder.write(folder, iter(documents[:30]), tokenizer, **made)
    assert second.checksum != first.checksum and second.document_count == 30
    assert not list(folder.glob("*.chunks*")) and (folder / "notes.txt").exists()
    other = WordPieceTokenizer([*VOCABULARY, "more"])
    with pytest.raises(ValueError, match="another vocabulary"):
        CorpusFolder(folder, other)
    with pytest.raises(ValueError, match="another vocabulary"):
        CorpusFolder(folder, WordPieceTokenizer(VOCABULARY, lowercase=False))
    assert CorpusFolder.write(folder, iter(documents), other, **made).document_count == 60
    monkeypatch.setattr(WordPieceTokenizer, "unicode_version", "1.0.0")
    with pytest.raises(ValueError, match="another vocabulary or other settings"):
        CorpusFolder(folder, other)


def test_damage_is_named(tmp_path, documents, tokenizer):
    CorpusFolder.write(tmp_path, iter(documents), tokenizer)
    path = tmp_path / "00000.tokens"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r"00000.tokens is damaged: it should have \d+ bytes"):
        CorpusFolder(tmp_path, tokenizer)
    path.unlink()
    with pytest.raises(ValueError, match="and has None"):
        CorpusFolder(tmp_path, tokenizer)
    (tmp_path / "corpus.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="corpus.json is not the index"):
        CorpusFolder(tmp_path, tokenizer)


def test_several_at_once_write_it_once(tmp_path, documents, tokenizer):
    begun, found = [], []

    def slow():
        begun.append(None)
        yield from documents

    def write():
        found.append(CorpusFolder.write(tmp_path / "c", slow(), tokenizer).checksum)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 1 and len(found) == 4 and len({*found}) == 1


def test_small_rests_and_long_documents(tmp_path, tokenizer):
    long = [["the film"] * 400]
    # A document alone gives no pairs, so it stands with the next one or the one before.
    corpus = CorpusFolder.write(tmp_path / "a", [*long, ["a"], *long], tokenizer, part_tokens=50)
    assert [part["documents"] for part in corpus.parts] == [3]
    assert len(batches(corpus, 3)) == 3
    alone = CorpusFolder.write(tmp_path / "b", long, tokenizer)
    with pytest.raises(ValueError, match="Part 0 of the corpus in .* is one document"):
        batches(alone, 1)
    assert len(batches(alone, 3, next_sentence=False)) == 3
    gaps = [["", "a film"], [""], [], ["the", ""]]
    corpus = CorpusFolder.write(tmp_path / "c", gaps, tokenizer)
    assert (corpus.document_count, corpus.dropped_documents, corpus.dropped_sentences) == (2, 2, 3)
    assert "2 documents" in repr(corpus) and "2 documents, 3 sentences" in repr(corpus)
    for empty in ([], [[""], []]):
        with pytest.raises(ValueError, match="The corpus is empty"):
            CorpusFolder.write(tmp_path / "d", empty, tokenizer)
    with pytest.raises(ValueError, match="received one text"):
        CorpusFolder.write(tmp_path / "d", ["a film"], tokenizer)
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "within"):
        with pytest.raises(ValueError, match="is or lies in a file"):
            CorpusFolder.write(path, long, tokenizer)
    with pytest.raises(ValueError, match="part_tokens"):
        CorpusFolder.write(tmp_path / "d", long, tokenizer, part_tokens=0)


def test_ids_that_need_more_than_two_bytes(tmp_path):
    words = [f"w{number}" for number in range(70_000)]
    tokenizer = WordPieceTokenizer([*VOCABULARY[:5], *words])
    corpus = CorpusFolder.write(tmp_path, [["w69999 w3", "w68000"], ["w1 w2", "w4"]], tokenizer)
    (batch,) = batches(corpus, epochs=1, left_to_right=True, next_sentence=False, shuffle=False)
    assert 69_999 + 5 in batch["token_ids"] and (tmp_path / "00000.tokens").stat().st_size == 24
