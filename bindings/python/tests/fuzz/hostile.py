# SPDX-License-Identifier: Apache-2.0
"""Hostile values: what a caller may pass for an array or a number, by mistake or to do harm. Arrays that lie about their memory (an
__array_interface__ with a wrong address) are left out: they are pointers, which nobody can check."""

import array
import ctypes

import numpy as np

TYPES = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?", "c8", "S4", "U2", "M8[s]", "V3")
STRUCTURED = np.dtype([("a", "i4"), ("b", "f4")])
EXTREMES = (0, 1, -1, 2, 3, 5, 2**31 - 1, 2**31, -2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, -2**63)
FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), -float("inf"), 1e308, -1e38, 5e-324)


class Mischief(Exception):
    """Raised by the code of hostile objects; it must come out as it is."""


class Liar(np.ndarray):
    """A class derived from ndarray that says it is another array than it is."""

    said = (5,)  # also by its slices
    shape = property(lambda self: self.said, lambda self, value: None)
    ndim = property(lambda self: len(self.said))
    size = property(lambda self: int(np.prod(self.said)))
    nbytes = property(lambda self: self.size * 8)

    def __len__(self):
        return self.said[0]

    def __repr__(self):  # numpy's own believes the shape, and fails
        return "Liar"


class Clears:
    """An integer that empties its list when it is asked for its value, or does what else `act` does."""

    def __init__(self, value, act):
        self.value, self.act = value, act

    def __index__(self):
        self.act()
        return self.value

    __int__ = __index__

    def __repr__(self):
        self.act()
        return "Clears"


class Makes:
    """Makes an array when asked for one, each time another."""

    def __init__(self, made):
        self.made = made

    def __array__(self, dtype=None, copy=None):
        made = self.made()
        return made if dtype is None else made.astype(dtype)

    def __len__(self):
        return 1 << 50


class Sequence:
    """Says it has more items than it gives, or the other way round."""

    def __init__(self, items, length):
        self.items, self.length = items, length

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        return self.items[i]


def mischief():
    raise Mischief("here")


class Hostile:
    """Of the arguments of a call one is hostile, or none, or any."""

    def __init__(self, rng):
        self.rng = rng
        self.forms = [name for name in dir(self) if name.startswith("as_")]
        self.begin()

    def begin(self):
        """A call begins."""
        self.turn, self.target = 0, self.rng.choice((0, 1, 2, 3, 4, 5, 6, 8, None))

    def is_next(self, part):
        """Whether the next argument is; `part` of them, if any may be."""
        self.turn += 1
        return self.rng.random() < part if self.target is None else self.turn - 1 == self.target

    def array(self, good):
        """The array itself, or one of its forms."""
        if not self.is_next(0.4):
            return good
        return self.as_extremes(good) if self.rng.random() < 0.2 else getattr(self, self.rng.choice(self.forms))(good)

    def number(self, good):
        rng = self.rng
        if not self.is_next(0.2):
            return good
        value = rng.choice(EXTREMES)
        return rng.choice((value, value, value, good + rng.choice((-1, 1)), np.int64(good), True, 1.5, "1", None, float("nan"), b"1", [1], np.int32([1, 2]),
                           Clears(good, lambda: None), Clears(good, mischief), Index(good)))

    def real(self, good):
        return self.rng.choice((*FLOATS, *EXTREMES, "x", None, np.float32(2), Clears(1, mischief))) if self.is_next(0.3) else good

    # ---- the same shape, and memory that cannot be used

    def as_sliced(self, a):
        if a.ndim == 0:
            return a
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]

    def as_columns(self, a):
        wide = np.zeros((*a.shape[:1], 3, *a.shape[1:]), a.dtype)
        wide[:, 1] = a
        return wide[:, 1] if a.ndim else a

    def as_reversed(self, a):
        return a[::-1] if a.ndim else a

    def as_transposed(self, a):
        return np.asfortranarray(a)

    def as_read_only(self, a):
        a = a.copy()
        a.flags.writeable = False
        return a

    def as_unaligned(self, a):
        return np.frombuffer(bytearray(a.nbytes + 1), np.uint8)[1:].view(a.dtype).reshape(a.shape) if a.nbytes else a

    def as_swapped_bytes(self, a):
        return a.astype(a.dtype.newbyteorder())

    def as_broadcast(self, a):
        return np.broadcast_to(a.reshape(-1)[:1], a.shape) if a.size else a

    # ---- another shape

    def as_zero_dimensions(self, a):
        return np.array(a.reshape(-1)[0] if a.size else 0, a.dtype)

    def as_empty(self, a):
        return a.reshape(-1)[:0] if a.ndim < 2 or self.rng.random() < 0.5 else a[:0]

    def as_more_dimensions(self, a):
        return np.repeat(a[..., None], self.rng.choice((1, 2, 7)), -1).copy()

    def as_flat(self, a):
        return a.reshape(-1).copy()

    def as_first(self, a):
        return a[0].copy() if a.ndim and len(a) else a

    def as_longer(self, a):
        return np.concatenate([a, a]) if a.ndim else a

    def as_shorter(self, a):
        return a[:-1].copy() if a.ndim else a

    def as_huge(self, a):
        shape = self.rng.choice(((1 << 62,), (1 << 40, 1), (1 << 40, 2, 2), (1 << 20, 1 << 20), (1, 1 << 40)))
        return np.broadcast_to(np.zeros(1, a.dtype), shape)

    def as_huge_without_bytes(self, a):
        return np.empty(self.rng.choice(((1 << 59, 0), (0, 1 << 59), (1 << 58, 0, 2), (0,) * 3)), a.dtype)

    # ---- another type

    def as_other_type(self, a):
        with np.errstate(all="ignore"):
            try:
                return a.astype(self.rng.choice(TYPES))
            except (TypeError, ValueError):
                return a.astype("f8")

    def as_structured(self, a):
        return np.zeros(a.shape, STRUCTURED)

    def as_objects(self, a):
        return np.full(a.shape, "x", object)

    # ---- other values

    def as_extremes(self, a):
        a = a.copy()
        flat = a.reshape(-1)
        for _ in range(self.rng.choice((1, 2, 9))):
            if flat.size:
                place = self.rng.randrange(flat.size)
                if a.dtype.kind in "iu":
                    limits = np.iinfo(a.dtype)
                    value = self.rng.choice((*(x for x in EXTREMES if limits.min <= x <= limits.max), limits.min, limits.max))
                else:
                    value = self.rng.choice(FLOATS)
                with np.errstate(all="ignore"):
                    flat[place] = value
        return a

    # ---- what else is an array, or is none

    def as_list(self, a):
        return self.rng.choice((list, tuple))(a.tolist()) if a.ndim else a.tolist()

    def as_range(self, a):
        return range(len(a)) if a.ndim else 1

    def as_memoryview(self, a):
        return memoryview(a.copy())

    def as_released(self, a):
        """Released, of a format that Python itself owns: iter() reads the format even then, and NumPy's own is freed with the array (CPython 3.11)."""
        view = memoryview(bytearray(a.tobytes()))
        if a.nbytes and a.dtype.char in "bBhHiIlLqQfd?":
            view = view.cast(a.dtype.char)
        view.release()
        return view

    def as_bytes(self, a):
        return self.rng.choice((bytes, bytearray))(a.tobytes())

    def as_standard_array(self, a):
        return array.array(self.rng.choice("ilqd"), [int(x) % 100 for x in a.reshape(-1)[:50]] if a.dtype.kind in "iu" else [1, 2])

    def as_ctypes(self, a):
        return (ctypes.c_int32 * max(1, a.size))()

    def as_matrix(self, a):
        return np.matrix(a) if a.ndim < 3 else a

    def as_masked(self, a):
        return np.ma.array(a.copy())

    def as_liar(self, a):
        liar = a.reshape(-1)[:1].copy().view(Liar) if a.ndim < 2 else a[:1].copy().view(Liar)
        liar.said = self.rng.choice((a.shape or (3,), a.shape or (3,), (1 << 40, 1 << 20)))
        return liar

    def as_made(self, a):
        return Makes(self.rng.choice((lambda: a.copy(), lambda: a[..., ::2] if a.ndim else a, mischief, lambda: np.zeros(3), lambda: "no array")))

    def as_changing_list(self, a):
        items = a.reshape(-1)[:40].tolist() or [0]
        act = self.rng.choice((items.clear, lambda: items.append(1), lambda: items.pop() if items else None, lambda: items.extend([2] * 1000),
                               lambda: items.__setitem__(slice(None), [7] * len(items)), mischief))
        items[self.rng.randrange(len(items))] = Clears(1, act)
        return items

    def as_sequence(self, a):
        return Sequence(a.reshape(-1)[:9].tolist(), self.rng.choice((0, 3, 1 << 40)))

    def as_nothing(self, a):
        return self.rng.choice((None, "text", b"bytes", {}, {1, 2}, object(), 3, -1, 2.5, iter([1, 2]), [[1], [1, 2]], [None], ["a"], [2**70], [1.5], Liar))


class Index(int):
    """An int that is another one each time."""

    def __new__(cls, value):
        self = super().__new__(cls, value)
        self.looks = 0
        return self

    def _again(self, *unused):
        self.looks += 1
        return self.looks * 1000

    __index__ = __int__ = __add__ = __radd__ = __mul__ = __rmul__ = __floordiv__ = __rfloordiv__ = __neg__ = _again

    def __eq__(self, other):
        return True

    def __bool__(self):
        self.looks += 1
        return bool(self.looks % 2)

    __hash__ = int.__hash__
