"""A binary tree of partial sums, to draw leaves in proportion to their priority. Knows nothing of steps."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sacbbf.types import FloatArray, IntArray

# Priorities come from float32 losses. The bound keeps the sum of 2^30 of them far from float64's infinity.
FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_priorities(values: npt.ArrayLike) -> FloatArray:
    """Returns `values` as float64; ValueError if one is negative, NaN, infinite or beyond float32."""
    priorities = np.asarray(values, dtype=np.float64)
    bad = ~((priorities >= 0.0) & (priorities <= FLOAT32_MAX))
    if bad.any():
        raise ValueError(f"priorities: got {priorities[bad].flat[0]}, must be finite, from 0 to {FLOAT32_MAX:.3g}")
    return priorities


class SumTree:
    """`capacity` leaves of float64 priority; node i is the sum of nodes 2i and 2i + 1, node 1 the total.

    Parents are always recomputed from both children, never by differences, so rounding does not pile up.
    Every call costs one pass over the depth of the tree.
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity: got {capacity}, must be at least 1")
        self.capacity = capacity
        self._depth = (capacity - 1).bit_length()
        self._first_leaf = 1 << self._depth  # leaves beyond the capacity stay at zero for ever
        self.nodes: FloatArray = np.zeros(2 * self._first_leaf)

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
        for level in range(self._depth - 1, -1, -1):
            first = 1 << level
            children = self.nodes[2 * first : 4 * first]
            self.nodes[first : 2 * first] = children[0::2] + children[1::2]

    def get(self, indices: IntArray) -> FloatArray:
        """Priorities of the leaves `indices` (B,)."""
        return self.nodes[self._nodes_of(indices)]

    def set(self, indices: IntArray, values: npt.ArrayLike) -> None:
        """Sets leaves `indices` (B,) to `values` (B,); where an index comes twice, its last value stays."""
        priorities = check_priorities(values)
        node = self._nodes_of(indices)
        if priorities.shape != node.shape:
            raise ValueError(f"priorities: got shape {priorities.shape}, must be that of indices {node.shape}")
        self.nodes[node] = priorities  # NumPy assigns in order, so the last duplicate wins
        nodes, left, right = self.nodes, self.nodes[0::2], self.nodes[1::2]  # children of node i: left[i], right[i]
        for _ in range(self._depth):
            node >>= 1
            nodes[node] = left[node] + right[node]

    def set_one(self, index: int, value: float) -> None:
        """`set` for a single leaf, without the cost of arrays: every stored step takes this path."""
        if not 0.0 <= value <= FLOAT32_MAX:
            check_priorities([value])
        if not 0 <= index < self.capacity:
            self._nodes_of(np.array([index]))
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
        node = self._descend(wanted)
        empty = self.nodes[node] == 0.0
        if empty.any():
            node[empty] = self._descend(wanted[empty], turning=True)
        return node - self._first_leaf

    def _descend(self, wanted: FloatArray, turning: bool = False) -> IntArray:
        """Leaf nodes (B,) of `wanted` (B,); `turning`: away from halves that are empty."""
        rest, node = wanted.copy(), np.ones(wanted.shape, dtype=np.int64)
        for _ in range(self._depth):
            node <<= 1
            left = self.nodes[node]
            go_right = rest >= left
            if turning:
                go_right &= self.nodes[node + 1] > 0.0
            rest -= left * go_right
            node += go_right
        return node

    def stratified(self, batch: int, generator: np.random.Generator) -> IntArray:
        """`batch` leaves in rising order, one drawn in each of `batch` equal slices of the total."""
        return self._find_fractions((np.arange(batch) + generator.random(batch)) / batch)

    def proportional(self, batch: int, generator: np.random.Generator) -> IntArray:
        """`batch` independent draws in proportion to priority."""
        return self._find_fractions(generator.random(batch))

    def _find_fractions(self, fractions: FloatArray) -> IntArray:
        if self.total == 0.0:
            raise ValueError("priorities: got all zero, must hold at least one above zero to draw from")
        # Rounding can carry a fraction just under 1 up to the total itself, which belongs to no leaf.
        return self.find(np.minimum(fractions * self.total, np.nextafter(self.total, 0.0)))

    def _nodes_of(self, indices: IntArray) -> IntArray:
        leaves = np.array(indices, dtype=np.int64)
        if leaves.size and not (leaves.min() >= 0 and leaves.max() < self.capacity):
            raise ValueError(
                f"indices: got {leaves.min()} to {leaves.max()}, must be between 0 and {self.capacity - 1}"
            )
        leaves += self._first_leaf
        return leaves
