"""The embedding signal: how close a script is to a tip, by the cosine of MiniLM sentence vectors.

Guarantees: the numbers of `SentenceTransformer.encode(normalize_embeddings=True)` to 3e-7, each
distinct text computed once, nothing fetched, torch imported on the first encoding only, and a
model never carried over a fork. Cosines are stable to 3e-7 under any batching; compare them at
5 decimals.

Does not guarantee meaning: the cosine sees the topic, not the direction ("edit X" and "never edit
X" are near each other), so it is one signal of three. It holds no cache and knows no database.

Shaped by two failures. The model reads 256 tokens and drops the rest without a word, so that what
a script does after its first screen counted for nothing: hence `chunks` and `truncated`. And a
process that encodes and then forks leaves its child waiting for threads that do not exist there:
hence `ForkedModel`.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from scoring.vectors import (
    EmbeddingError,
    NonFinite,
    TextVector,
)
from scoring.weights import (
    WEIGHTS_SHA256,
    load_model,
    model_directory,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set
    from pathlib import Path

    from scoring.vectors import FloatArray

TokenIds = tuple[int, ...]

MAX_TOKENS: Final = 256
"""What the model reads, [CLS] and [SEP] included; later tokens are cut."""
CHUNK_TOKENS: Final = 200
"""Longest chunk, [CLS] and [SEP] not counted."""
BATCH_TOKENS: Final = 2048
"""Padded tokens of one forward pass. Larger batches leave the CPU cache and are slower."""
MAX_CHARACTERS: Final = 400_000
"""Longest text taken, in characters: a hostile one must not hold a worker for hours."""
RECIPE: Final = f"mean-{MAX_TOKENS}/lines-{CHUNK_TOKENS}/1"
"""How tokens become vectors. With `Encoder.weights_sha256` the key of a cache of vectors."""

_CLS: Final = 101
_SEP: Final = 102
_CONTENT_TOKENS: Final = MAX_TOKENS - 2


class UnencodableText(EmbeddingError):
    """Some texts of a call have no vector. Raised before any of them is computed.

    Attributes: `indexes`, their positions in the argument; leave them out and call again.
    """

    cause = "cannot be encoded"

    def __init__(self, indexes: Sequence[int]) -> None:
        self.indexes = tuple(indexes)
        listed = ", ".join(map(str, self.indexes[:10])) + (", ..." if len(indexes) > 10 else "")
        super().__init__(
            f"{len(indexes)} text(s), at {listed}, {self.cause}: leave the signal of these rows "
            f"empty with a reason and encode the others"
        )


class EmptyText(UnencodableText):
    """Empty, blank, or of characters that the tokenizer drops; the model would make up a vector."""

    cause = "hold nothing that the model can read"


class NotUnicode(UnencodableText):
    """Holds lone surrogates, which have no UTF-8 form and hence no hash."""

    cause = "hold lone surrogates"


class TextTooLong(UnencodableText):
    """Longer than MAX_CHARACTERS."""

    cause = f"are longer than {MAX_CHARACTERS:,} characters"


class ForkedModel(EmbeddingError):
    """A process that had loaded the model was forked, and the child asks for it.

    Attributes: `parent`, the pid that loaded it. Its threads do not exist in the child, where a
    forward pass, and already a second load, could wait for them for ever.
    """

    def __init__(self, parent: int) -> None:
        self.parent = parent
        super().__init__(
            f"process {os.getpid()} was forked from {parent}, which had loaded the embedding model: "
            f"load it in children only, at their first use, or keep to one process (a solo pool)"
        )


@dataclass(frozen=True)
class EncoderWork:
    """What an encoder has computed since it was loaded.

    `texts` asked for, `distinct_texts` among them per call, `sequences` that went through the
    model (heads and chunks), their `tokens` without padding, and the forward passes, `batches`.
    """

    texts: int = 0
    distinct_texts: int = 0
    sequences: int = 0
    tokens: int = 0
    batches: int = 0


class Encoder:
    """MiniLM in this process. Made by `load_encoder`; calls from several threads take turns.

    `weights_sha256` (hex) is the identity of the model: vectors of two identities must not be
    compared. `pid` loaded it. `threads` is what torch was told to use. `work` counts what it did.
    """

    def __init__(self, *, model: Any, tokenizer: Any, threads: int) -> None:
        self._torch: Any = importlib.import_module("torch")
        self._model = model
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self.weights_sha256 = WEIGHTS_SHA256
        self.pid = os.getpid()
        self.threads = threads
        self.work = EncoderWork()

    def encode(self, texts: Sequence[str]) -> list[TextVector]:
        """One vector per text, in the order given; equal texts are computed once.

        Memory grows with the sum of the texts: hand over some hundreds at a time. Raises
        NotUnicode, TextTooLong or EmptyText (whichever is met first, with every index of that
        kind, before any vector is computed), NonFinite, and ForkedModel in a forked child.
        """
        self._refuse_to_work(texts)
        with self._lock:
            tokenized = self._tokenize(texts)
            rows = self._encode_sequences(
                {piece for found in tokenized.values() for piece in found.pieces}
            )
            self._count(len(texts), len(tokenized))
        vectors = {text: found.vector(rows) for text, found in tokenized.items()}
        return [vectors[text] for text in texts]

    def encode_head(self, text: str) -> FloatArray:
        """The ``vector`` that `encode` gives *text*, shape (384,), without the work of its chunks.

        For a question that waits for its answer. Raises as `encode`.
        """
        self._refuse_to_work([text])
        with self._lock:
            head = self._tokenize([text])[text].head
            rows = self._encode_sequences({head})
            self._count(1, 1)
        return rows[head].copy()

    def _refuse_to_work(self, texts: Sequence[str]) -> None:
        if os.getpid() != self.pid:
            raise ForkedModel(self.pid)
        _refuse_unreadable(texts)

    def _count(self, texts: int, distinct: int) -> None:
        self.work = replace(
            self.work,
            texts=self.work.texts + texts,
            distinct_texts=self.work.distinct_texts + distinct,
        )

    def _tokenize(self, texts: Sequence[str]) -> dict[str, _Tokenized]:
        """Each distinct text, in the order of its first place; raises EmptyText."""
        distinct = list(dict.fromkeys(texts))
        encodings = self._tokenizer.encode_batch(distinct, add_special_tokens=False)
        found = {
            text: _Tokenized.of(text, encoding)
            for text, encoding in zip(distinct, encodings, strict=True)
        }
        if blank := {text for text, each in found.items() if not each.ids}:
            raise EmptyText([index for index, text in enumerate(texts) if text in blank])
        return found

    def _encode_sequences(self, sequences: Set[TokenIds]) -> dict[TokenIds, FloatArray]:
        # By length, so that a batch pads next to nothing; then by content, so that the batches,
        # and with them the last bits of a vector, do not hang on the order of the caller.
        ordered = sorted(sequences, key=lambda ids: (-len(ids), ids))
        rows: dict[TokenIds, FloatArray] = {}
        for batch in _batches(ordered):
            rows.update(zip(batch, self._forward(batch), strict=True))
            self.work = replace(
                self.work,
                sequences=self.work.sequences + len(batch),
                tokens=self.work.tokens + sum(len(ids) + 2 for ids in batch),
                batches=self.work.batches + 1,
            )
        return rows

    def _forward(self, batch: Sequence[TokenIds]) -> FloatArray:
        """Mean of the token states, scaled to length 1: shape (len(batch), 384)."""
        width = len(batch[0]) + 2
        ids = np.zeros((len(batch), width), dtype=np.int64)
        mask = np.zeros((len(batch), width), dtype=np.int64)
        for row, content in enumerate(batch):
            ids[row, : len(content) + 2] = (_CLS, *content, _SEP)
            mask[row, : len(content) + 2] = 1
        torch = self._torch
        attended = torch.from_numpy(mask)
        with torch.inference_mode():
            states = self._model(
                input_ids=torch.from_numpy(ids), attention_mask=attended
            ).last_hidden_state
            weights = attended.unsqueeze(-1).to(states.dtype)
            means = (states * weights).sum(1) / weights.sum(1)
            unit: FloatArray = torch.nn.functional.normalize(means, p=2, dim=1).numpy()
        if not np.isfinite(unit).all():
            raise NonFinite("a sentence vector")
        return unit


@dataclass(frozen=True)
class _Tokenized:
    """A text as token ids without [CLS] and [SEP], and where its chunks start and end."""

    sha256: str
    ids: TokenIds
    bounds: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str, encoding: Any) -> _Tokenized:
        ids = tuple(encoding.ids)
        bounds: tuple[tuple[int, int], ...] = ()
        if len(ids) > _CONTENT_TOKENS:
            newlines = [found.start() for found in re.finditer("\n", text)]
            starts = [start for start, _ in encoding.offsets]
            lines = np.searchsorted(newlines, starts).tolist()
            bounds = tuple(chunk_bounds(lines, encoding.word_ids))
        return cls(sha256=_sha256(text), ids=ids, bounds=bounds)

    @property
    def head(self) -> TokenIds:
        return self.ids[:_CONTENT_TOKENS]

    @property
    def pieces(self) -> list[TokenIds]:
        """What the model has to read: the head, and the chunks when the head is not all."""
        return [self.head, *(self.ids[start:end] for start, end in self.bounds)]

    def vector(self, rows: Mapping[TokenIds, FloatArray]) -> TextVector:
        vector = rows[self.head].copy()
        chunks = np.stack([rows[piece] for piece in self.pieces[1:] or (self.head,)])
        vector.setflags(write=False)
        chunks.setflags(write=False)
        return TextVector(
            sha256=self.sha256,
            vector=vector,
            chunks=chunks,
            tokens=len(self.ids) + 2,
            truncated=bool(self.bounds),
        )


def chunk_bounds(
    lines: Sequence[int], words: Sequence[int | None], *, limit: int = CHUNK_TOKENS
) -> Iterator[tuple[int, int]]:
    """Split tokens into consecutive [start, end) ranges of at most `limit` tokens, all covered.

    `lines` and `words`: number of the line and of the word that each token belongs to. A range
    ends before a new line; within a line longer than `limit`, before a new word; and within a
    word longer than that, anywhere.
    """
    start = 0
    while start < len(lines):
        end = min(start + limit, len(lines))
        if end < len(lines):
            cuts = range(end, start, -1)
            end = next((cut for cut in cuts if lines[cut] != lines[cut - 1]), 0) or next(
                (cut for cut in cuts if words[cut] != words[cut - 1]), end
            )
        yield start, end
        start = end


def _batches(ordered: Sequence[TokenIds]) -> Iterator[Sequence[TokenIds]]:
    """Slices of sequences sorted longest first, each of at most BATCH_TOKENS once padded."""
    start = 0
    while start < len(ordered):
        rows = max(1, BATCH_TOKENS // (len(ordered[start]) + 2))
        yield ordered[start : start + rows]
        start += rows


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_unreadable(texts: Sequence[str]) -> None:
    surrogates = [i for i, text in enumerate(texts) if re.search("[\ud800-\udfff]", text)]
    if surrogates:
        raise NotUnicode(surrogates)
    long = [i for i, text in enumerate(texts) if len(text) > MAX_CHARACTERS]
    if long:
        raise TextTooLong(long)


_encoders: dict[Path, Encoder] = {}
_load_lock = threading.Lock()


def _renew_lock() -> None:
    # Another thread of the parent may have held it at the fork; here nobody would release it.
    global _load_lock
    _load_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def load_encoder(*, threads: int | None = None, directory: Path | None = None) -> Encoder:
    """The encoder of this process: loaded at the first call (about 6 s, 0.5 GB), then the same one.

    `threads` (at least 1; default: the cores this process may use, at most 4) and the offline
    settings of the process are fixed by the first call. `directory` defaults to the installed
    model. Raises ModelMissing, WeightsMismatch, and ForkedModel in the child of a process that
    had loaded it.
    """
    place = directory or model_directory()
    with _load_lock:
        known = _encoders.get(place)
        if known is not None and known.pid == os.getpid():
            return known
        # Loading again here could hang as well: building the model has used the threads too.
        for inherited in _encoders.values():
            if inherited.pid != os.getpid():
                raise ForkedModel(inherited.pid)
        _encoders[place] = _load(place, threads or min(4, _usable_cores()))
        return _encoders[place]


def _load(place: Path, threads: int) -> Encoder:
    model, tokenizer = load_model(place)
    importlib.import_module("torch").set_num_threads(threads)
    return Encoder(model=model, tokenizer=tokenizer, threads=threads)


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux: honours taskset and cpusets
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
