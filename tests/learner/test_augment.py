"""Augmentation against padding and cropping by hand, and what its draws cover and share."""

import numpy as np
import pytest
import torch
from scipy import stats

from sacbbf.agents.behaviour import PAPER, RELEASED
from sacbbf.learner.augment import PAD, augment, brightness, random_shift, to_float
from sacbbf.learner.noise import Noise

SIDE = 2 * PAD + 1  # smallest side whose centre pixel tells every offset apart
ALL_OFFSETS = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))  # (81, 2)


def noise(seed=0):
    return Noise(torch.Generator().manual_seed(seed))


def random_images(*shape, seed=0, dtype=np.uint8):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape).astype(dtype))


def augmented_floats(images, *words):
    """What a network reads of augmented images (N, C, H, W), in rows of one."""
    return augment(images[:, None], *words).floats(0, len(images))


def pad_and_crop(images, offsets, pad=PAD):
    """The shift, one image and one frame at a time."""
    result = np.empty_like(images)
    height, width = images.shape[2:]
    for n, (row, column) in enumerate(offsets):
        for c in range(images.shape[1]):
            padded = np.pad(images[n, c], pad, mode="edge")
            result[n, c] = padded[row : row + height, column : column + width]
    return result


class ScriptedNoise(Noise):
    """Hands out given offsets and normals, and remembers what range was asked for."""

    def __init__(self, offsets, normals):
        self.offsets, self.normals, self.high = offsets, normals, None

    def integers(self, high, shape):
        assert tuple(shape) == tuple(self.offsets.shape)
        self.high = high
        return self.offsets

    def normal(self, shape):
        assert tuple(shape) == tuple(self.normals.shape)
        return self.normals


# --- conversion ---------------------------------------------------------------------------------------------


def test_uint8_becomes_zero_to_one():
    images = torch.arange(256, dtype=torch.uint8).reshape(1, 4, 8, 8)
    floats = to_float(images)
    assert floats.dtype == torch.float32
    np.testing.assert_allclose(floats.numpy().ravel(), np.arange(256) / 255.0, rtol=1e-6)
    assert torch.equal(images.flatten(), torch.arange(256, dtype=torch.uint8))


def test_bool_becomes_zero_or_one():
    grid = random_images(3, 4, 10, 10) > 127
    assert torch.equal(to_float(grid), torch.where(grid, 1.0, 0.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(5, 3), (2, 4, 6, 6)])
def test_floats_stay_as_they_are(dtype, shape):
    states = 100.0 * torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    floats = to_float(states)
    assert floats.dtype == torch.float32
    assert torch.equal(floats, states.float())


def test_uint8_vectors_are_scaled_too():
    assert to_float(torch.tensor([[0, 255], [51, 102]], dtype=torch.uint8)).tolist() == [
        [0.0, 1.0],
        pytest.approx([0.2, 0.4]),
    ]


@pytest.mark.parametrize("dtype", [np.uint8, bool, np.float32])
def test_images_come_out_channels_last(dtype):
    images = random_images(2, 4, 6, 5, dtype=dtype)
    floats = to_float(images)
    assert floats.shape == images.shape
    assert floats.is_contiguous(memory_format=torch.channels_last)


# --- shift --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, bool, np.float32])
def test_shift_matches_padding_and_cropping_at_every_offset(dtype):
    images = random_images(len(ALL_OFFSETS), 3, 11, 14, dtype=dtype)
    shifted = random_shift(images, ALL_OFFSETS)
    assert shifted.dtype == images.dtype
    np.testing.assert_array_equal(shifted.numpy(), pad_and_crop(images.numpy(), ALL_OFFSETS.numpy()))


@pytest.mark.parametrize("pad", [1, 2, 6])
def test_shift_matches_padding_and_cropping_for_other_pads(pad):
    offsets = torch.cartesian_prod(torch.arange(2 * pad + 1), torch.arange(2 * pad + 1))
    images = random_images(len(offsets), 2, 5, 4)
    expected = pad_and_crop(images.numpy(), offsets.numpy(), pad)
    np.testing.assert_array_equal(random_shift(images, offsets, pad).numpy(), expected)


def test_offset_of_the_pad_is_the_identity():
    images = random_images(4, 4, 84, 84)
    assert torch.equal(random_shift(images, torch.full((4, 2), PAD)), images)


def test_extreme_offsets_move_by_four_pixels():
    images = random_images(2, 4, 84, 84)
    shifted = random_shift(images, torch.tensor([[0, PAD], [PAD, 2 * PAD]]))
    assert torch.equal(shifted[0, :, 4:], images[0, :, :-4])  # down: the top row is repeated
    assert torch.equal(shifted[0, :, :4], images[0, :, :1].expand(-1, 4, -1))
    assert torch.equal(shifted[1, :, :, :-4], images[1, :, :, 4:])  # left: the last column is repeated
    assert torch.equal(shifted[1, :, :, -4:], images[1, :, :, -1:].expand(-1, -1, 4))


# --- intensity ----------------------------------------------------------------------------------------------


def test_intensity_factor_is_clipped_at_two_deviations():
    normal = torch.tensor([-5.0, -2.0, -1.0, 0.0, 1.0, 2.0, 5.0])
    torch.testing.assert_close(brightness(normal), torch.tensor([0.9, 0.9, 0.95, 1.0, 1.05, 1.1, 1.1]))


def planes_together(images):
    """The same images, all first channels together in memory, then all second ones."""
    return images.transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_planes_that_lie_together_are_shifted_alike(channels):
    images = random_images(81, channels, 12, 13)
    together = planes_together(images)
    expected = pad_and_crop(images.numpy(), ALL_OFFSETS.numpy())
    for each in (images, together):
        shifted = random_shift(each, ALL_OFFSETS)
        assert np.array_equal(shifted.numpy(), expected)
        assert shifted.is_contiguous(memory_format=torch.channels_last)


# --- both ---------------------------------------------------------------------------------------------------


def test_augment_shifts_then_scales_then_brightens():
    images = random_images(81, 4, 12, 13)
    normals = torch.linspace(-3.0, 3.0, 81)
    augmented = augmented_floats(images, ScriptedNoise(ALL_OFFSETS, normals))
    factor = 1.0 + 0.05 * np.clip(normals.double().numpy(), -2.0, 2.0)
    expected = pad_and_crop(images.numpy(), ALL_OFFSETS.numpy()) / 255.0 * factor[:, None, None, None]
    np.testing.assert_allclose(augmented.numpy(), expected, rtol=1e-6)
    assert augmented.is_contiguous(memory_format=torch.channels_last)


def recover_draws(count, seed=0, crop_extra=PAPER.crop_extra, channels=4):
    """Offsets (count, 2) and intensity factors (count,) that augment drew, read off the images.

    Channels 0 and 1 hold each pixel's row and column, the others are white.
    """
    index = torch.arange(SIDE, dtype=torch.uint8)
    images = torch.full((count, channels, SIDE, SIDE), 255, dtype=torch.uint8)
    images[:, 0], images[:, 1] = index[:, None], index[None, :]
    augmented = augmented_floats(images, noise(seed), crop_extra).double()
    white = augmented[:, 2:].flatten(1)
    factor = white[:, 0]
    assert torch.equal(white, factor[:, None].expand_as(white)), "frames of a state differ in intensity"
    centre = augmented[:, :2, PAD, PAD] * 255.0 / factor[:, None]  # row, column = offset
    assert (centre - centre.round()).abs().max() < 1e-4
    return centre.round().long().numpy(), factor.numpy()


@pytest.mark.parametrize(("behaviour", "largest"), [(PAPER, 8), (RELEASED, 7)])
def test_offsets_are_uniform_over_the_behaviours_range(behaviour, largest):
    offsets, _ = recover_draws(20_000, crop_extra=behaviour.crop_extra)
    assert set(offsets[:, 0]) == set(offsets[:, 1]) == set(range(largest + 1))
    joint = np.bincount(offsets[:, 0] * (largest + 1) + offsets[:, 1], minlength=(largest + 1) ** 2)
    assert stats.chisquare(joint).pvalue > 1e-3  # rows and columns are drawn apart


def test_paper_offsets_are_the_default():
    scripted = ScriptedNoise(ALL_OFFSETS, torch.zeros(81))
    augment(random_images(1, 81, 2, 9, 9), scripted)
    assert scripted.high == 9


def test_neighbouring_states_are_drawn_independently():
    offsets, factor = recover_draws(20_000)
    pairs = np.bincount(offsets[:-1:2, 0] * SIDE + offsets[1::2, 0], minlength=SIDE**2)
    assert stats.chisquare(pairs).pvalue > 1e-3
    assert abs(np.corrcoef(factor[:-1], factor[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(factor, offsets[:, 0])[0, 1]) < 0.03


def test_intensity_draws_are_a_clipped_normal():
    _, factor = recover_draws(20_000)
    assert factor.min() == pytest.approx(0.9, abs=1e-6)
    assert factor.max() == pytest.approx(1.1, abs=1e-6)
    tail = np.mean(np.abs(factor - 1.0) > 0.1 - 1e-6)
    assert tail == pytest.approx(2 * stats.norm.sf(2.0), abs=0.006)
    inside = (factor[np.abs(factor - 1.0) < 0.1 - 1e-6] - 1.0) / 0.05
    assert stats.kstest(inside, stats.truncnorm(-2.0, 2.0).cdf).pvalue > 1e-3


def test_the_same_seed_draws_the_same():
    images = random_images(16, 4, 20, 20)
    first, again, other = (augmented_floats(images, noise(seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_stored_images_are_left_alone(dtype):
    images = random_images(8, 4, 12, 12, dtype=dtype)
    before = images.clone()
    observations = augment(images.view(2, 4, 4, 12, 12), noise())
    floats = observations.floats(0, 2)
    assert torch.equal(images, before)
    assert torch.equal(observations.floats(1, 2), floats[4:])  # a row that is encoded twice reads the same
