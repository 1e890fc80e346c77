"""A binary tree of partial sums, to draw leaves in proportion to their priority. Knows nothing of steps."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from sacbbf.types import FloatArray, IntArray

# Priorities come from float32 losses. The bound keeps the sum of 2^30 of them far from float64's infinity.
FLOAT32_MAX = float(np.finfo(np.float32).max)

# Levels of up to so many nodes are summed as a whole: a call of NumPy costs more than these additions.
WHOLE_LEVEL = 512
# Up to so many values are followed down one by one: for these, a call of NumPy at every turn costs more.
ONE_BY_ONE = 8


def check_priorities(values: npt.ArrayLike) -> FloatArray:
    """Returns `values` as float64; ValueError if one is negative, NaN, infinite or beyond float32."""
    priorities = np.asarray(values, dtype=np.float64)
    good = (priorities >= 0.0) & (priorities <= FLOAT32_MAX)
    if np.count_nonzero(good) < good.size:
        raise ValueError(f"priorities: got {priorities[~good].flat[0]}, must be finite, from 0 to {FLOAT32_MAX:.3g}")
    return priorities


class SumTree:
    """`capacity` leaves of float64 priority; node i is the sum of nodes 2i and 2i + 1, node 1 the total.

    Parents are always recomputed from both children, never by differences, so rounding does not pile up.
    Every call costs one pass over the depth of the tree; batches being small, what counts is NumPy's calls.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: got {capacity}, must be at least 1")
        self.capacity = capacity
        self._depth = (capacity - 1).bit_length()
        self._first_leaf = 1 << self._depth  # leaves beyond the capacity stay at zero for ever
        self.nodes: FloatArray = np.zeros(2 * self._first_leaf)
        # Left children, right children and parents of every level, as views: the lowest level comes first.
        self._levels = [
            (self.nodes[2 * size : 4 * size : 2], self.nodes[2 * size + 1 : 4 * size : 2], self.nodes[size : 2 * size])
            for size in (1 << level for level in range(self._depth - 1, -1, -1))
        ]
        self._whole_levels = [level for level in self._levels if len(level[2]) <= WHOLE_LEVEL]

    @property
    def total(self) -> float:
        """The sum of all priorities."""
        return float(self.nodes[1])

    @property
    def nbytes(self) -> int:
        """Memory of the nodes."""
        return self.nodes.nbytes

    @property
    def leaves(self) -> FloatArray:
        """All priorities (capacity,), as a view."""
        return self.nodes[self._first_leaf : self._first_leaf + self.capacity]

    def set_all(self, values: npt.ArrayLike) -> None:
        """Give all leaves new priorities (capacity,); sums come out as if they had been set one by one."""
        self.leaves[:] = check_priorities(values)
        for left, right, parents in self._levels:
            np.add(left, right, out=parents)

    def get(self, indices: IntArray) -> FloatArray:
        """Priorities of the leaves `indices` (B,)."""
        return self.get_known(self._checked(indices))

    def get_known(self, leaves: IntArray) -> FloatArray:
        """`get` for leaves (B,) that are known to be some of the tree's."""
        return self.nodes[leaves + self._first_leaf]

    def set(self, indices: IntArray, values: npt.ArrayLike) -> None:
        """Sets leaves `indices` (B,) to `values` (B,); where an index comes twice, its last value stays."""
        priorities = check_priorities(values)
        leaves = self._checked(indices)
        if priorities.shape != leaves.shape:
            raise ValueError(f"priorities: got shape {priorities.shape}, must be that of indices {leaves.shape}")
        self.set_known(leaves, priorities)

    def set_known(self, leaves: IntArray, priorities: FloatArray) -> None:
        """`set` for leaves (B,) and priorities (B,) that have been checked."""
        node = leaves + self._first_leaf
        self.nodes[node] = priorities  # NumPy assigns in order, so the last duplicate wins
        nodes, left, right = self.nodes, self.nodes[0::2], self.nodes[1::2]  # children of node i: left[i], right[i]
        for _ in range(self._depth - len(self._whole_levels)):
            node >>= 1
            nodes[node] = left[node] + right[node]
        for left, right, parents in self._whole_levels:  # sums of what did not change come out as they were
            np.add(left, right, out=parents)

    def set_one(self, index: int, value: float) -> None:
        """`set` for a single leaf, without the cost of arrays: every stored step takes this path."""
        if not 0.0 <= value <= FLOAT32_MAX:
            check_priorities([value])
        if not 0 <= index < self.capacity:
            self._checked(np.array([index]))
        nodes = self.nodes
        node = self._first_leaf + index
        nodes[node] = value
        while node > 1:
            node >>= 1
            nodes[node] = nodes[2 * node] + nodes[2 * node + 1]

    def find(self, values: FloatArray) -> IntArray:
        """Leaves (B,) in whose interval of the running sum `values` (B,) lie; `values` are in [0, total).

        Never returns a leaf of zero priority: where rounding would lead into an empty half, it turns away.
        """
        wanted = np.array(values, dtype=np.float64)
        if wanted.size and not (wanted.min() >= 0.0 and wanted.max() < self.total):
            raise ValueError(f"values: got {wanted.min()} to {wanted.max()}, must be in [0, {self.total})")
        return self._find_known(wanted)

    def _find_known(self, wanted: FloatArray) -> IntArray:
        """`find` for values (B,) that are known to be in [0, total)."""
        if len(wanted) <= ONE_BY_ONE:
            node = np.array([self._descend_turning(value) for value in wanted.tolist()], dtype=np.int64)
        else:
            node = self._descend(wanted)
            for empty in (self.nodes[node] == 0.0).nonzero()[0]:
                node[empty] = self._descend_turning(float(wanted[empty]))
        node -= self._first_leaf
        return node

    def _descend(self, wanted: FloatArray) -> IntArray:
        """Leaf nodes (B,) of `wanted` (B,); a leaf may be empty."""
        nodes, rest, node = self.nodes, wanted.copy(), np.ones(wanted.shape, dtype=np.int64)
        for _ in range(self._depth):
            node += node
            left = nodes[node]
            go_right = rest >= left
            rest -= left * go_right
            node += go_right
        return node

    def _descend_turning(self, wanted: float) -> int:
        """Leaf node of one value, turning away from halves that are empty: `_descend`'s, unless that is empty."""
        nodes, rest, node = self.nodes, wanted, 1
        for _ in range(self._depth):
            node += node
            left = nodes.item(node)
            if rest >= left and nodes.item(node + 1) > 0.0:
                rest -= left
                node += 1
        return node

    def stratified(self, batch: int, generator: np.random.Generator) -> IntArray:
        """`batch` leaves in rising order, one drawn in each of `batch` equal slices of the total."""
        return self._find_fractions((_slices(batch) + generator.random(batch)) / batch)

    def proportional(self, batch: int, generator: np.random.Generator) -> IntArray:
        """`batch` independent draws in proportion to priority."""
        return self._find_fractions(generator.random(batch))

    def _find_fractions(self, fractions: FloatArray) -> IntArray:
        total = self.total
        if total == 0.0:
            raise ValueError("priorities: got all zero, must hold at least one above zero to draw from")
        # Rounding can carry a fraction just under 1 up to the total itself, which belongs to no leaf.
        return self._find_known(np.minimum(fractions * total, math.nextafter(total, 0.0)))

    def _checked(self, indices: IntArray) -> IntArray:
        leaves = np.array(indices, dtype=np.int64)
        if leaves.size and not (leaves.min() >= 0 and leaves.max() < self.capacity):
            raise ValueError(
                f"indices: got {leaves.min()} to {leaves.max()}, must be between 0 and {self.capacity - 1}"
            )
        return leaves


@lru_cache(maxsize=8)  # a run draws batches of one size
def _slices(batch: int) -> FloatArray:
    """The numbers of `batch` slices, (batch,)."""
    return np.arange(batch, dtype=np.float64)
