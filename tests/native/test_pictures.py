"""Augmented pictures in blocks, against padding, cropping and subtracting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from sacbbf.native import library
from sacbbf.native.pictures import LARGEST, can_block, centred_blocks

pytestmark = pytest.mark.skipif(library.library() is None, reason="no C functions here: no compiler, or not Linux")

PAD = 4
OFFSETS = torch.cartesian_prod(torch.arange(2 * PAD + 1), torch.arange(2 * PAD + 1))  # every one of them


def random_images(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def by_hand(images, offsets, factors, rows, pad=PAD):
    """One pixel at a time, in double precision."""
    count, planes, height, width = images.shape
    out = np.empty((count, planes * rows * 4, height // rows, width // 4))
    for n, (top, left) in enumerate(offsets.tolist()):
        crop = np.stack([np.pad(plane, pad, mode="edge") for plane in images[n].numpy()]).astype(np.float64)
        crop = crop[:, top : top + height, left : left + width]
        crop = (crop - crop.mean()) * float(factors[n])
        for y in range(height):
            for x in range(width):
                channels = (np.arange(planes) * rows + y % rows) * 4 + x % 4
                out[n, channels, y // rows, x // 4] = crop[:, y, x]
    return out


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("shape", [(3, 12, 16), (4, 8, 8), (1, 20, 4)])
def test_every_offset_matches_what_is_done_by_hand(shape, rows):
    images, factors = random_images(len(OFFSETS), *shape), torch.linspace(0.001, 0.01, len(OFFSETS))
    found = centred_blocks(images, OFFSETS, factors, rows, PAD)
    np.testing.assert_allclose(found.numpy(), by_hand(images, OFFSETS, factors, rows), rtol=1e-5, atol=1e-6)
    assert found.dtype == torch.float32 and found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("rows", [1, 4])
def test_atari_pictures_match_what_is_done_by_hand(rows):
    images, factors = random_images(3, 4, 84, 84), torch.tensor([0.0036, 0.004, 0.0043])
    offsets = torch.tensor([[0, 8], [4, 4], [7, 1]])
    found = centred_blocks(images, offsets, factors, rows, PAD)
    np.testing.assert_allclose(found.numpy(), by_hand(images, offsets, factors, rows), rtol=1e-5, atol=1e-6)


def test_other_pads():
    images, factors, offsets = random_images(3, 2, 8, 8), torch.ones(3), torch.tensor([[0, 0], [2, 1], [1, 2]])
    found = centred_blocks(images, offsets, factors, 2, pad=1)
    np.testing.assert_allclose(found.numpy(), by_hand(images, offsets, factors, 2, pad=1), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_layout_change_no_bit(threads):
    images, factors = random_images(81, 4, 84, 84), torch.linspace(0.003, 0.005, 81)
    want = centred_blocks(images, OFFSETS, factors, 4, PAD)
    planes_together = images.transpose(0, 1).contiguous().transpose(0, 1)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for each in (images, planes_together):
            assert torch.equal(centred_blocks(each, OFFSETS, factors, 4, PAD), want)
    finally:
        torch.set_num_threads(before)


def test_stored_pictures_are_left_alone():
    images = random_images(5, 4, 12, 12)
    before = images.clone()
    centred_blocks(images, OFFSETS[:5], torch.ones(5), 4, PAD)
    assert torch.equal(images, before)


def test_a_part_of_a_batch_is_read_where_it_lies():
    images, factors = random_images(81, 4, 12, 12), torch.ones(81)
    whole = centred_blocks(images, OFFSETS, factors, 4, PAD)
    assert torch.equal(centred_blocks(images[20:], OFFSETS[20:], factors[20:], 4, PAD), whole[20:])
    assert torch.equal(centred_blocks(images[::2], OFFSETS[::2], factors[::2], 4, PAD), whole[::2])


def test_which_pictures_are_taken():
    images = random_images(2, 4, 12, 12)
    assert can_block(images, 4)
    assert not can_block(images.float(), 4)
    assert not can_block(images.to("meta"), 4)
    assert not can_block(images[:, :, :10], 4)  # ten rows are no blocks of four
    assert not can_block(images[..., :8], 4)  # rows with gaps
    assert not can_block(images.transpose(2, 3), 4)
    assert not can_block(random_images(1, 1, 8, LARGEST // 8 + 4), 4)


@pytest.mark.parametrize(
    ("offsets", "factors"),
    [(OFFSETS[:1], torch.ones(2)), (OFFSETS[:2], torch.ones(1)), (OFFSETS[:2].float(), torch.ones(2))],
)
def test_draws_that_do_not_fit_are_refused(offsets, factors):
    with pytest.raises(ValueError, match="must be"):
        centred_blocks(random_images(2, 4, 12, 12), offsets, factors, 4, PAD)


def test_offsets_beyond_the_edge_are_the_edge():
    images = random_images(2, 4, 12, 12)
    found = centred_blocks(images, torch.tensor([[-7, 99], [99, -7]]), torch.ones(2), 4, PAD)
    want = centred_blocks(images, torch.tensor([[0, 8], [8, 0]]), torch.ones(2), 4, PAD)
    assert torch.equal(found, want)
