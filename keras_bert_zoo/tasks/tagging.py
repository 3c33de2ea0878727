"""Words in, a label for each of them out: also for such as vanish, or stand past the length."""

import itertools
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert_zoo.metrics.tagging import OUTSIDE, find_spans
from keras_bert_zoo.tasks.token_labels import TokenLabels
from keras_bert_zoo.text.word_rows import (
    WordPieceWords,
    WordRows,
    read_word_spans,
    read_words,
    word_rows,
)

_MULTIPLE = 8  # Lengths are multiples of it, which makes for few shapes.
_LONG_WORK = 100  # From how many batches on there is a progress bar unasked.


class Tagger(TokenLabels):
    """A task that labels the words of sentences.

    `fit` and `evaluate` take, beside ids, lists of lists of words with lists of lists of tags. A
    word's label is learnt and predicted at its first piece; a sentence longer than the
    preprocessor's `sequence_length` is read through windows, and a word's label belongs to the one
    in which it has most context.
    """

    def tag(
        self, sentences: Sequence, batch_size: int = 32, stride: int | None = None, verbose="auto"
    ) -> list[list]:
        """Labels the words of sentences.

        Args:
            sentences: lists of words; or texts, which are split at white space and punctuation.
            batch_size: rows a batch.
            stride: see `keras_bert_zoo.text.word_rows.word_rows`.
            verbose: 1 or true for a progress bar, 0 for none; by default a bar if there are a
                hundred batches or more.

        Returns:
            For each list of words the list of their labels, equally many: a word that vanishes in
            tokenizing is `O`, or `""` if the task has no such label. For each text a list of its
            words, dicts of `word`, `label`, `probability`, and `start` and `end`, by which it is
            `text[start:end]`.

        Raises:
            ValueError: if the task has no preprocessor, texts and lists of words are mixed, a word
                is no string, or there is no such stride.
        """
        if isinstance(sentences, (str, bytes, dict, tf.data.Dataset)):
            raise ValueError(
                "`tag` takes a list of texts, or of lists of words. Received: "
                f"{type(sentences).__name__}"
            )
        sentences = list(sentences)
        self._is_raw(sentences)  # Refuses words without a preprocessor.
        are_texts = bool(sentences) and isinstance(sentences[0], str)
        words = (read_word_spans if are_texts else read_words)(self.tokenizer, sentences)
        numbers, shares = self._predict_words(words, batch_size, stride, verbose)
        # The number -1 is the last of these.
        labels = [*self.labels, OUTSIDE if OUTSIDE in self.labels else ""]
        tags = [labels[number] for number in numbers]
        bounds = np.concatenate([[0], np.cumsum(words.word_counts)]).tolist()
        parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
        if not are_texts:
            return [tags[part] for part in parts]
        starts, ends = words.char_starts.tolist(), words.char_ends.tolist()
        return [
            [
                {
                    "word": text[starts[place] : ends[place]],
                    "label": tags[place],
                    "probability": float(shares[place]),
                    "start": starts[place],
                    "end": ends[place],
                }
                for place in range(part.start, part.stop)
            ]
            for text, part in zip(sentences, parts, strict=True)
        ]

    def find_entities(self, texts: Sequence[str], **kwargs) -> list[list[dict]]:
        """Finds the entities in texts, where labels are tags, such as `B-PER`.

        Spans of words are read as conlleval reads them. To be good at texts, as against lists of
        words, train with `label_all_pieces=True`: a text's words end at every hyphen and full stop.

        Args:
            texts: the texts.
            **kwargs: as `tag` takes them.

        Returns:
            For each text a list of dicts of `type`, `text`, `start` and `end`, by which it is
            `text[start:end]`.

        Raises:
            ValueError: as `tag` does, or if a label is no tag.
        """
        if any(not isinstance(text, str) for text in texts):
            raise ValueError("`find_entities` takes texts. `tag` takes lists of words too.")
        found = []
        for text, words in zip(texts, self.tag(texts, **kwargs), strict=True):
            entities = []
            for span in find_spans(word["label"] for word in words):
                start, end = words[span.start]["start"], words[span.end - 1]["end"]
                entities.append(
                    {"type": span.type, "text": text[start:end], "start": start, "end": end}
                )
            found.append(entities)
        return found

    def encode_words(
        self, sentences: Sequence[Sequence[str]], stride: int | None = None
    ) -> WordRows:
        """Turns lists of words into rows of ids, in which each word has a place.

        Raises:
            ValueError: as `tag` does.
        """
        self._is_raw(list(sentences))
        return self._rows(read_words(self.tokenizer, sentences), stride)

    def number_tags(
        self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]
    ) -> np.ndarray:
        """Gives the number of each word's label, int32, all in one row.

        Raises:
            ValueError: if there is not one tag a word, or a tag is none of the labels.
        """
        if len(sentences) != len(tags):
            raise ValueError(f"There are {len(sentences)} sentences, but tags for {len(tags)}.")
        known = {label: number for number, label in enumerate(self.labels)}
        numbers = []
        for place, (words, row) in enumerate(zip(sentences, tags, strict=True)):
            if len(words) != len(row):
                raise ValueError(f"Sentence {place} has {len(words)} words, but {len(row)} tags.")
            for tag in row:
                if tag not in known:
                    raise ValueError(
                        f"Sentence {place} has the tag {tag!r}, and the task's labels are: "
                        f"{', '.join(self.labels)}"
                    )
                numbers.append(known[tag])
        return np.array(numbers, np.int32)

    def read_columns(self, x, y=None):
        if not _are_tags(y):
            return super().read_columns(x, y)
        if not isinstance(x, (list, tuple)):
            raise ValueError(
                "Tags, by their names, come with a list of lists of words. Received: "
                f"{type(x).__name__}"
            )
        rows, numbers = self.encode_words(x), self.number_tags(x, y)
        shape = (None, self._width(rows.lengths.max()))
        features = rows.features()
        x = {name: part.to_tensor(shape=shape).numpy() for name, part in features.items()}
        x["token_ids"][x["padding_mask"] == 0] = self.tokenizer.pad_id
        return x, rows.ragged(rows.spread(numbers, -1)).to_tensor(-1, shape=shape).numpy()

    def _rows(self, words, stride) -> WordRows:
        ids = (self.tokenizer.cls_id, self.tokenizer.sep_id)
        return word_rows(words, self.preprocessor.sequence_length, *ids, stride)

    def _width(self, longest) -> int:
        """The length that rows are padded to."""
        rounded = -(-int(longest) // _MULTIPLE) * _MULTIPLE
        return self.encoder.sequence_length or min(rounded, self.preprocessor.sequence_length)

    def _predict_words(self, words: WordPieceWords, batch_size, stride, verbose):
        """The number of each word's label, int (W,), and its probability; -1 and 0 for none."""
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1. Received: {batch_size}")
        rows = self._rows(words, stride)
        numbers = np.full(len(rows.token_ids), -1)
        shares = np.zeros(len(numbers), np.float32)
        order = np.argsort(-rows.lengths, kind="stable")
        batches = -(-len(order) // batch_size)
        if verbose == "auto":
            verbose = batches >= _LONG_WORK
        bar = keras.utils.Progbar(batches, verbose=int(verbose), unit_name="batch")
        for first in range(0, len(order), batch_size):
            chosen = order[first : first + batch_size]
            width = self._width(rows.lengths[chosen[0]])
            real = np.arange(width) < rows.lengths[chosen][:, None]
            flat = (rows.splits[chosen][:, None] + np.arange(width))[real]
            ids = np.full(real.shape, self.tokenizer.pad_id, np.int32)
            ids[real] = rows.token_ids[flat]
            batch = {
                "token_ids": ids,
                "segment_ids": np.zeros_like(ids),
                "padding_mask": real.astype(np.int32),
            }
            best, share = self._best(tf.nest.map_structure(tf.constant, batch))
            numbers[flat], shares[flat] = best.numpy()[real], share.numpy()[real]
            bar.add(1)
        # A word without a place reads what is put at the end.
        numbers, shares = np.append(numbers, -1), np.append(shares, 0.0)
        return numbers[rows.places].tolist(), shares[rows.places].tolist()

    @property
    def _best(self):
        """The best label of each token and its probability, as a graph for any length."""
        if "_best_function" not in self.__dict__:
            spec = tf.TensorSpec((None, self.encoder.sequence_length), tf.int32)

            def best(ids):
                logits = self(ids, training=False)
                return tf.argmax(logits, -1), tf.reduce_max(tf.nn.softmax(logits), -1)

            self.__dict__["_best_function"] = tf.function(
                best, input_signature=[dict.fromkeys(self.input, spec)], autograph=False
            )
        return self.__dict__["_best_function"]


def _are_tags(y):
    """Whether these are lists of names, and not of numbers."""
    if not isinstance(y, (list, tuple)):
        return False
    return any(isinstance(row, (list, tuple)) and row and isinstance(row[0], str) for row in y)
