"""3x3 convolutions compute what PyTorch's own do, gradients included, whichever way these are computed."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from sacbbf.bench.speed import fused_convolutions
from sacbbf.networks import convolution
from sacbbf.networks.convolution import MANY, Conv3x3, StridedConv
from sacbbf.networks.encoders import CentredNatureEncoder, ImpalaEncoder, ResidualBlock


@pytest.fixture(autouse=True)
def on_amd(monkeypatch):
    monkeypatch.setattr(convolution, "by_amd", lambda: True)


def pair(channels: int, out: int) -> tuple[Conv3x3, nn.Conv2d]:
    torch.manual_seed(0)
    ours = Conv3x3(channels, out).double()
    theirs = nn.Conv2d(channels, out, kernel_size=3, padding=1).double()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize(("channels", "out"), [(MANY, MANY), (MANY, MANY + 3), (MANY + 8, MANY), (4, MANY), (6, 5)])
@pytest.mark.parametrize("channels_last", [True, False])
@pytest.mark.parametrize("input_wanted", [True, False])
def test_output_and_gradients_are_those_of_pytorch(channels, out, channels_last, input_wanted):
    found = []
    for layer in pair(channels, out):
        generator = torch.Generator().manual_seed(1)
        x = torch.randn(3, channels, 5, 7, generator=generator, dtype=torch.float64)
        if channels_last:
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_(input_wanted)
        answer = layer(x)
        weights = torch.randn(answer.shape, generator=generator, dtype=torch.float64)
        (answer.relu_() * weights).sum().backward()
        found.append([answer, layer.weight.grad, layer.bias.grad, *([x.grad] if input_wanted else [])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("pictures", [1, 3, 6])
def test_pictures_side_by_side(monkeypatch, threads, pictures):
    """As many as there are threads, and what is left over."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    generator = torch.Generator().manual_seed(1)
    x, grad = (torch.randn(pictures, MANY, 5, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    weight = torch.zeros(MANY, MANY, 3, 3, dtype=torch.float64, requires_grad=True)
    (F.conv2d(x, weight, padding=1) * grad).sum().backward()
    found = convolution.weight_gradient(grad, x, weight.detach())
    torch.testing.assert_close(found, weight.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("channels", [MANY, 6])
def test_all_arithmetic_is_counted(channels):
    """As much as PyTorch's own layer, whichever way the weights' gradient is computed."""
    counts = []
    for layer in pair(channels, MANY):
        x = torch.randn(3, channels, 5, 7, dtype=torch.float64, requires_grad=True)
        with FlopCounterMode(display=False) as counter:
            layer(x).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts == [3 * 2 * 3 * 5 * 7 * 9 * channels * MANY] * 2


@pytest.mark.parametrize(
    ("channels", "out", "expected"), [(MANY, MANY, True), (MANY - 1, MANY, False), (4, 128, False)]
)
def test_many_channels_go_picture_by_picture(monkeypatch, channels, out, expected):
    asked = []
    monkeypatch.setattr(
        convolution, "_gradients", lambda grad, x, weight, wanted: asked.append(wanted) or (x, weight, None)
    )
    layer, _ = pair(channels, out)
    x, grad = (torch.randn(2, size, 4, 4, dtype=torch.float64) for size in (channels, out))
    convolution.weight_gradient(grad, x, layer.weight)
    assert asked == ([] if expected else [(False, True, False)])


def test_onednn_is_left_to_it_elsewhere(monkeypatch):
    x, weight = torch.zeros(1, MANY, 4, 4), torch.zeros(MANY, MANY, 3, 3)
    assert convolution.by_picture(x, weight)
    monkeypatch.setattr(convolution, "by_amd", lambda: False)
    assert not convolution.by_picture(x, weight)


def test_without_gradients_nothing_is_kept():
    layer, _ = pair(MANY, MANY)
    with torch.no_grad():
        assert layer(torch.randn(1, MANY, 4, 4, dtype=torch.float64)).grad_fn is None
    layer.requires_grad_(False)
    assert layer(torch.randn(1, MANY, 4, 4, dtype=torch.float64)).grad_fn is None


@pytest.mark.parametrize(("width", "stride", "kernel"), [(12, 2, 4), (24, 4, 8), (13, 2, 4), (12, 2, 3), (12, 1, 4)])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_a_strided_layer_is_that_of_pytorch(width, stride, kernel, layout):
    """Whether its columns can be read as channels or not."""
    torch.manual_seed(0)
    ours = StridedConv(3, 5, kernel, stride).double().to(memory_format=layout)
    theirs = nn.Conv2d(3, 5, kernel, stride).double()
    theirs.load_state_dict(ours.state_dict())
    found = []
    for layer in (ours, theirs):
        x = torch.randn(2, 3, 16, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        x = x.to(memory_format=layout).requires_grad_()
        answer = layer(x)
        (answer * torch.arange(answer.numel(), dtype=torch.float64).view(answer.shape).sin()).sum().backward()
        found.append([answer, x.grad, layer.weight.grad, layer.bias.grad])
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(ours.with_bias(x, None) + ours.bias[:, None, None], found[0][0], rtol=1e-10, atol=1e-10)


def test_columns_are_read_as_channels_where_they_lie():
    x = torch.rand(2, 3, 16, 12).to(memory_format=torch.channels_last)
    weight = torch.rand(5, 3, 4, 4).to(memory_format=torch.channels_last)
    wide, narrow, stride = convolution.columns_as_channels(x, weight, (2, 2))
    assert (wide.shape, narrow.shape, stride) == ((2, 6, 16, 6), (5, 6, 4, 2), (2, 1))
    assert wide.data_ptr() == x.data_ptr() and narrow.data_ptr() == weight.data_ptr()
    with torch.autocast("cpu", torch.bfloat16):
        assert convolution.columns_as_channels(x, weight, (2, 2))[0] is x


@pytest.fixture
def block():
    block = ResidualBlock(24)
    for number, parameter in enumerate(block.parameters()):
        generator = torch.Generator().manual_seed(number)
        parameter.data.normal_(generator=generator).mul_(0.2)
    return block.to(memory_format=torch.channels_last)


def pictures(dtype=torch.float32):
    x = torch.randn(5, 24, 9, 7, generator=torch.Generator().manual_seed(9)).to(dtype)
    return x.contiguous(memory_format=torch.channels_last)


@pytest.mark.skipif(not convolution.FUSED, reason="PyTorch without oneDNN")
def test_a_block_with_its_relu_and_sum_within_the_convolutions(block):
    with torch.no_grad():
        x, want = pictures(), block(pictures())
        found = block.onto(x)
    assert torch.equal(found, want)
    assert found.data_ptr() == x.data_ptr()  # in its place
    assert not torch.equal(found, pictures())


@pytest.mark.skipif(not convolution.FUSED, reason="PyTorch without oneDNN")
@pytest.mark.parametrize("relu", [True, False])
def test_a_convolution_is_added_where_the_sum_lies(block, relu):
    with torch.no_grad():
        layer, sum_ = block.conv0, pictures().mul_(3.0)
        want = sum_ + layer(pictures())
        found = convolution.add_onto(sum_, pictures(), layer.weight, layer.bias, relu=relu)
        assert torch.equal(found, want.relu() if relu else want) and want.min() < 0
    assert found.data_ptr() == sum_.data_ptr()


@pytest.mark.skipif(not convolution.FUSED, reason="PyTorch without oneDNN")
def test_where_that_is_possible():
    with torch.no_grad():
        assert convolution.fuses(pictures())
        assert not convolution.fuses(pictures(torch.float64))
        assert not convolution.fuses(pictures().to("meta"))
        with torch.autocast("cpu", torch.bfloat16):
            assert not convolution.fuses(pictures())
    assert not convolution.fuses(pictures())  # a gradient may be wanted


@pytest.mark.skipif(not convolution.FUSED, reason="PyTorch without oneDNN")
@pytest.mark.parametrize("make", [ImpalaEncoder, CentredNatureEncoder])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_an_encoder_without_gradients_leaves_its_input_alone_and_counts_alike(monkeypatch, make, layout):
    encoder = make((3, 44, 37), 0.25).to(memory_format=layout)
    x = torch.rand(4, 3, 44, 37, generator=torch.Generator().manual_seed(0)).to(memory_format=layout)
    before, found, flops = x.clone(), [], []
    for fused in (True, False):
        monkeypatch.setattr(convolution, "FUSED", fused)
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=fused_convolutions()) as counter:
            found.append(encoder(x))
        flops.append(counter.get_total_flops())
    assert torch.equal(*found) and torch.equal(x, before)
    assert flops[0] == flops[1] > 0
