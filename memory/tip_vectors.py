"""Which tips' texts are nearest to a query: by pgvector where it is there, by numpy otherwise.

pgvector compares small stores (it needs no memory here), numpy those that are large or without pgvector.

Guarantees: both ways give the same tips in the same order. Each only makes a first choice, wider than
asked by what single precision may get wrong; cosines are then computed anew in double precision from
the stored numbers, rounded, and equal ones stand in the order of their primary keys. The search is exact:
no approximate index is asked. Vectors of another encoder, of another length or with a number that is
none are left out. Does not encode (``memory.encoders``) and does not write (``scoring.tip_vectors``).

The numpy way keeps the vectors of the last few (skill, encoder) in the process and looks at each use
whether there are new ones.

Shaped by: two searches for one question, whose answers differed in the last place and with it in the
last tip.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
import numpy.typing as npt
from django.db import DataError, connection, transaction
from django.db.models import BinaryField, F, Func

from memory.models import Tip, TipVector

if TYPE_CHECKING:
    from collections.abc import Iterator

FloatArray = npt.NDArray[np.float32]
Method = Literal["pgvector", "numpy"]

DIGITS: Final = 9
"""Cosines are rounded to this many decimals, so that numbers that mean the same are the same."""
MARGIN: Final = 1e-4
"""More than single precision gets wrong in a dot product of two unit vectors of 384 numbers, twice."""
EXTRA: Final = 64
"""Vectors read beyond those asked for, so that the margin seldom needs a second look."""
IN_DATABASE_AT_MOST: Final = 5_000
"""Vectors that the database is asked to compare: 4 microseconds each, most of it to make vectors of
arrays. Of 20,000, numpy compares all in a tenth of the time."""
KEPT: Final = 4
"""(skill, encoder) pairs whose vectors a process keeps: 30 MB for 20,000 tips."""

_HEADER: Final = 20
_ELEMENT: Final = np.dtype([("size", ">i4"), ("number", ">f4")])


class ArraySend(Func):
    """SQL: an array in Postgres' binary form, ten times faster to read than its text."""

    function = "array_send"
    output_field = BinaryField()


def unpacked(data: bytes | memoryview | None) -> FloatArray | None:
    """The vector in what ``ArraySend`` gave, shape (n,); None when there is none or it is damaged."""
    if data is None or len(data) <= _HEADER or (len(data) - _HEADER) % _ELEMENT.itemsize:
        return None
    found = np.frombuffer(data, dtype=_ELEMENT, offset=_HEADER)
    vector = found["number"].astype(np.float32)
    if (found["size"] != vector.itemsize).any() or not np.isfinite(vector).all():
        return None
    return vector


def exact_cosines(vectors: FloatArray, query: FloatArray) -> list[float]:
    """Cosines of unit vectors, shape (n, d), with one more, in [-1, 1], rounded to DIGITS.

    In double precision, and row by row: a matrix product may add up a row differently beside others.
    """
    products = (vectors.astype(np.float64) * query.astype(np.float64)).sum(axis=1)
    return [round(float(product), DIGITS) for product in np.clip(products, -1.0, 1.0)]


@dataclass(frozen=True, slots=True)
class Near:
    """A tip whose text is near, and how near: cosine in [-1, 1]."""

    tip_id: int
    cosine: float


@dataclass(frozen=True, slots=True)
class Store:
    """What there is to search in: vectors of *encoder* in *skill*, by what means.

    ``count`` and ``newest`` (the highest key) change whenever a vector is added: a tip's text never
    changes, nor does its vector, and a vector leaves an encoder only for a later one.
    """

    skill: str
    encoder: str
    pgvector: bool
    count: int
    newest: int

    @property
    def method(self) -> Method:
        """In the database where it can and is fast enough, else in this process."""
        return "pgvector" if self.pgvector and self.count <= IN_DATABASE_AT_MOST else "numpy"


def store_of(skill: str, encoder: str) -> Store:
    """Asked at each use: an administrator may make or drop the extension, others add vectors."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'vector'),"
            " count(*), coalesce(max(tip_id), 0)"
            " FROM tip_vectors WHERE skill = %s AND encoder = %s",
            [skill, encoder],
        )
        return Store(skill, encoder, *cursor.fetchone())


def nearest(
    store: Store, query: FloatArray, limit: int, *, method: Method | None = None
) -> list[Near]:
    """The *limit* active tips (of scope "rule") with the nearest texts, nearest first.

    *query*: unit vector of the store's encoder. *method*: None: the store's.
    """
    search = _by_pgvector if (method or store.method) == "pgvector" else _by_numpy
    wanted = limit + EXTRA
    while limit > 0:
        try:
            chosen = search(store, query, wanted)
        except DataError:  # a damaged vector fails the database's cast; numpy leaves it out
            search = _by_numpy
            continue
        found = _exact(chosen, query)
        if chosen.complete or _settled(chosen, limit):
            return found[:limit]
        wanted *= 4
    return []


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A first choice, nearest first: keys, cosines in single precision, vectors of shape (n, d)."""

    ids: list[int]
    rough: npt.NDArray[np.float64]
    vectors: FloatArray
    complete: bool
    """There are no other vectors than these."""


def _settled(chosen: _Chosen, limit: int) -> bool:
    """Whether no vector outside the choice can belong to the first *limit*."""
    return bool(len(chosen.ids) > limit and chosen.rough[limit - 1] - chosen.rough[-1] > 2 * MARGIN)


def _exact(chosen: _Chosen, query: FloatArray) -> list[Near]:
    found = map(Near, chosen.ids, exact_cosines(chosen.vectors, query))
    return sorted(found, key=lambda near: (-near.cosine, near.tip_id))


# --- In the database ------------------------------------------------------------------------------

# The inner product: for unit vectors it is the cosine, and the cheapest of pgvector's distances. The
# vectors themselves are read for the best only: to send all of them would take longer than the search.
_SEARCH: Final = """
SELECT near.tip_id, -near.distance, array_send(v."values")
FROM (
  SELECT v.tip_id, v."values"::vector <#> %(query)s::vector AS distance
  FROM tip_vectors v JOIN tips t ON t.id = v.tip_id
  WHERE v.skill = %(skill)s AND v.encoder = %(encoder)s AND cardinality(v."values") = %(length)s
    AND t.retired_at IS NULL AND t.scope = %(scope)s AND t.text <> ''
  ORDER BY distance, v.tip_id
  LIMIT %(wanted)s
) AS near JOIN tip_vectors v USING (tip_id)
ORDER BY near.distance, near.tip_id
"""


def _by_pgvector(store: Store, query: FloatArray, wanted: int) -> _Chosen:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _SEARCH,
            {
                "query": "[" + ",".join(map(repr, query.tolist())) + "]",
                "skill": store.skill,
                "encoder": store.encoder,
                "length": len(query),
                "scope": Tip.Scope.RULE.value,
                "wanted": wanted,
            },
        )
        rows = [(pk, rough, unpacked(data)) for pk, rough, data in cursor.fetchall()]
    sound = [(pk, rough, vector) for pk, rough, vector in rows if vector is not None]
    return _Chosen(
        ids=[pk for pk, _, _ in sound],
        rough=np.array([rough for _, rough, _ in sound], dtype=np.float64),
        vectors=np.array([vector for *_, vector in sound]).reshape(len(sound), len(query)),
        complete=len(rows) < wanted,
    )


# --- In this process ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Kept:
    """All vectors of a store: keys ascending; vectors of shape (n, d)."""

    store: Store
    ids: npt.NDArray[np.int64]
    vectors: FloatArray


_kept: dict[tuple[str, str, int], _Kept] = {}
_kept_lock = threading.Lock()


def forget() -> None:
    """Drop the vectors that this process keeps."""
    with _kept_lock:
        _kept.clear()


def _by_numpy(store: Store, query: FloatArray, wanted: int) -> _Chosen:
    kept = _vectors_of(store, len(query))
    # not "@": on cores that others use as well, BLAS's threads wait for each other
    rough = np.einsum("ij,j->i", kept.vectors, query).astype(np.float64)
    taken: list[int] = []
    looked = 0
    for part in _nearest_first(rough, kept.ids, first=2 * wanted):
        active = _active(kept.ids[part].tolist())
        taken += [index for index in part.tolist() if int(kept.ids[index]) in active]
        looked += len(part)
        if len(taken) > wanted:
            break  # here, not above: to be asked for the other part, it would be sorted
    complete = looked == len(rough) and len(taken) <= wanted
    taken = taken[:wanted]
    return _Chosen(
        ids=[int(kept.ids[index]) for index in taken],
        rough=rough[taken],
        vectors=kept.vectors[taken],
        complete=complete,
    )


def _nearest_first(
    rough: npt.NDArray[np.float64], ids: npt.NDArray[np.int64], *, first: int
) -> Iterator[npt.NDArray[np.int64]]:
    """Positions, nearest first, ties by key; *first* of them, then the others in one part."""
    if first >= len(rough):
        yield np.lexsort((ids, -rough))
        return
    # to sort all of them would take longer than to compare them
    split = np.argpartition(-rough, first - 1)
    for part in (split[:first], split[first:]):
        yield part[np.lexsort((ids[part], -rough[part]))]


_ACTIVE: Final = """
SELECT id FROM tips WHERE id = ANY(%s) AND retired_at IS NULL AND scope = %s AND text <> ''
"""


def _active(tip_ids: list[int]) -> set[int]:
    """Those that may rank; by one parameter, for hundreds take the ORM longer than the database."""
    with connection.cursor() as cursor:
        cursor.execute(_ACTIVE, [tip_ids, Tip.Scope.RULE.value])
        return {pk for (pk,) in cursor.fetchall()}


def _vectors_of(store: Store, length: int) -> _Kept:
    """From memory while nothing was added."""
    key = (store.skill, store.encoder, length)
    with _kept_lock:
        known = _kept.pop(key, None)
        if known is not None and known.store == store:
            _kept[key] = known  # the last used one is dropped last
            return known
    loaded = _loaded(store, length)
    with _kept_lock:
        _kept[key] = loaded
        while len(_kept) > KEPT:
            del _kept[next(iter(_kept))]
    return loaded


def _loaded(store: Store, length: int) -> _Kept:
    rows = TipVector.objects.filter(skill=store.skill, encoder=store.encoder).order_by("pk")
    ids, vectors = [], []
    for pk, data in rows.values_list("pk", ArraySend(F("values"))).iterator(chunk_size=2000):
        vector = unpacked(data)
        if vector is not None and len(vector) == length:
            ids.append(pk)
            vectors.append(vector)
    return _Kept(
        store=store,
        ids=np.array(ids, dtype=np.int64),
        vectors=np.array(vectors, dtype=np.float32).reshape(len(ids), length),
    )
