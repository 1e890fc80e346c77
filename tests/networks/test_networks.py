"""Networks against explicit loops, counted parameters, and the layouts that the reference needs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sacbbf.agents.config import NetworkConfig
from sacbbf.networks import AgentNetwork, build_network
from sacbbf.networks.encoders import make_encoder
from sacbbf.networks.layers import SameConv2d, max_pool_same, renormalize, same_padding, to_maps, to_rows
from sacbbf.networks.transition import TransitionModel


def build(config: NetworkConfig, obs_shape=(4, 20, 20), actions=3, self_prediction=True, seed=0) -> AgentNetwork:
    return build_network(
        config,
        obs_shape,
        actions,
        self_prediction=self_prediction,
        device=torch.device("cpu"),
        generator=torch.Generator().manual_seed(seed),
    )


SMALL = NetworkConfig(width_scale=0.25, hidden_dim=16, num_atoms=11)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pads"),
    [
        (84, 3, 2, (0, 1)),
        (42, 3, 2, (0, 1)),
        (21, 3, 2, (1, 1)),
        (84, 8, 4, (2, 2)),
        (21, 4, 2, (1, 2)),
        (11, 3, 1, (1, 1)),
    ],
)
def test_same_padding_puts_the_odd_pixel_after(size, kernel, stride, pads):
    assert same_padding(size, kernel, stride) == pads


@pytest.mark.parametrize("shape", [(8, 8), (7, 7), (8, 7), (7, 8), (1, 1), (2, 3)])
def test_max_pool_equals_a_loop_over_windows(shape):
    image = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    height, width = shape
    top, left = same_padding(height, 3, 2)[0], same_padding(width, 3, 2)[0]
    want = np.full((-(-height // 2), -(-width // 2)), -np.inf, np.float32)
    for row in range(want.shape[0]):
        for column in range(want.shape[1]):
            for y in range(max(0, 2 * row - top), min(height, 2 * row - top + 3)):
                for x in range(max(0, 2 * column - left), min(width, 2 * column - left + 3)):
                    want[row, column] = max(want[row, column], image[y, x])
    got = max_pool_same(torch.from_numpy(image)[None, None])[0, 0].numpy()
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [21, 20, 9])
def test_same_convolution_equals_explicit_padding(size):
    torch.manual_seed(0)
    conv = SameConv2d(2, 3, kernel_size=4, stride=2)
    x = torch.randn(2, 2, size, size + 1)
    before, after = zip(same_padding(size, 4, 2), same_padding(size + 1, 4, 2), strict=True)
    padded = torch.zeros(2, 2, size + before[0] + after[0], size + 1 + before[1] + after[1])
    padded[:, :, before[0] : before[0] + size, before[1] : before[1] + size + 1] = x
    want = F.conv2d(padded, conv.weight, conv.bias, stride=2)
    torch.testing.assert_close(conv(x), want)
    assert conv(x).shape[2:] == (-(-size // 2), -(-(size + 1) // 2))


@pytest.mark.parametrize(
    ("name", "obs_shape", "scale", "out_shape"),
    [
        ("impala", (4, 84, 84), 4.0, (128, 11, 11)),
        ("impala", (3, 50, 37), 1.0, (32, 7, 5)),
        ("nature", (4, 84, 84), 1.0, (64, 11, 11)),
        ("nature", (4, 84, 84), 0.5, (32, 11, 11)),
        ("centred-nature", (4, 84, 84), 1.0, (32, 7, 7)),
        ("centred-nature", (3, 59, 60), 0.5, (16, 3, 4)),
        ("centred-nature", (3, 16, 100), 1.0, (32, 3, 9)),
        ("grid", (6, 10, 10), 1.0, (8, 5, 5)),
        ("grid", (4, 9, 10), 2.0, (16, 5, 5)),
        ("mlp", (4,), 2.0, (128,)),
    ],
)
def test_encoder_shapes(name, obs_shape, scale, out_shape):
    with torch.device("meta"):
        encoder = make_encoder(name, obs_shape, scale)
        latent = encoder(torch.zeros(2, *obs_shape))
    assert tuple(latent.shape[1:]) == encoder.out_shape == out_shape


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("sides", [(68, 61), (52, 30)])  # the second is padded
def test_a_centred_encoder_sees_pictures_less_their_mean(layout, sides):
    encoder = build(NetworkConfig("centred-nature", 0.25, 8), (2, *sides)).encoder
    torch.nn.init.constant_(encoder.conv0.bias, 0.1)  # not taken away
    pictures = torch.rand(3, 2, *sides, generator=torch.Generator().manual_seed(0)).to(memory_format=layout)
    before = pictures.clone()
    latents = encoder(pictures)
    torch.testing.assert_close(encoder(pictures + 0.3), latents, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(latents, layer_by_layer("centred-nature", encoder, pictures), rtol=1e-4, atol=1e-5)
    assert torch.equal(pictures, before) and not torch.allclose(encoder(1.5 * pictures), latents, rtol=1e-2)


def test_a_centred_encoder_tells_pictures_apart_that_share_a_background():
    """Bright pictures that differ in one small square: how alike their projections are, 1 being equal."""
    pictures = torch.full((16, 4, 84, 84), 0.7)
    for number, picture in enumerate(pictures):
        picture[:, 20 * (number // 4) : 20 * (number // 4) + 6, 20 * (number % 4) : 20 * (number % 4) + 6] = 0.2
    alike = {}
    for encoder in ("nature", "centred-nature"):
        network = build(NetworkConfig(encoder, 0.5, 64), (4, 84, 84))
        directions = F.normalize(network.q_features(network.encode(pictures)), dim=1)
        alike[encoder] = (directions @ directions.T).mean().item()
    assert alike["centred-nature"] < 0.9 < 0.98 < alike["nature"]


def layer_by_layer(name: str, encoder, x):
    """An encoder as it is described: each layer, and where its relu stands."""
    if name == "impala":
        for stage in (encoder.stage0, encoder.stage1, encoder.stage2):
            x = max_pool_same(stage.conv(x))
            for block in (stage.block0, stage.block1):
                x = x + block.conv1(torch.relu(block.conv0(torch.relu(x))))
        return torch.relu(x)
    if name.endswith("nature"):
        if name == "centred-nature":
            height, width = x.shape[2:]
            x = F.pad(x - x.mean((1, 2, 3), keepdim=True), (0, max(52 - width, 0), 0, max(52 - height, 0)))
        for conv in (encoder.conv0, encoder.conv1, encoder.conv2):
            x = torch.relu(conv(x))
        return x
    if name == "grid":
        whole = F.conv2d(torch.relu(encoder.conv0(x)), encoder.conv1.weight, encoder.conv1.bias, padding=1)
        return torch.relu(whole[:, :, ::2, ::2])
    return torch.relu(encoder.linear1(torch.relu(encoder.linear0(x))))


@pytest.mark.parametrize(
    ("name", "obs_shape"),
    [
        ("impala", (2, 19, 14)),
        ("nature", (2, 19, 14)),
        ("centred-nature", (2, 19, 14)),
        ("centred-nature", (2, 41, 37)),
        ("grid", (2, 19, 14)),
        ("mlp", (5,)),
    ],
)
def test_encoders_and_their_gradients_are_those_of_their_layers(name, obs_shape):
    encoder = build(NetworkConfig(encoder=name, width_scale=0.25, hidden_dim=8), obs_shape).encoder.double()
    with torch.no_grad():
        for number, (_, parameter) in enumerate(encoder.named_parameters()):
            if parameter.dim() == 1:  # biases start at zero, where they would hide
                parameter.copy_(0.1 * normal(number + 1, *parameter.shape)[-1])
    x = normal(3, *obs_shape).double().requires_grad_()
    found, gradients = [], []
    for latent in (encoder(x), layer_by_layer(name, encoder, x)):
        found.append(latent)
        weights = torch.arange(latent.numel()).view(latent.shape).sin()
        gradients.append(torch.autograd.grad((weights * latent).sum(), [x, *encoder.parameters()]))
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*gradients)
    assert found[0].min() == 0 < found[0].max()


def test_encoder_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"encoder = 'impala' takes images .* shape \(4,\)"):
        make_encoder("impala", (4,), 1.0)
    with pytest.raises(ValueError, match="must be one of impala, nature, centred-nature, grid, mlp"):
        make_encoder("resnet", (4, 84, 84), 1.0)  # type: ignore[arg-type]


def test_paper_size_has_75_7_million_parameters():
    with torch.device("meta"):
        network = AgentNetwork(NetworkConfig(), (4, 84, 84), 18)
    assert round(sum(p.numel() for p in network.parameters()) / 1e6, 1) == 75.7


def test_rows_are_in_the_order_height_width_channel():
    latent = torch.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    want = [latent[0, channel, y, x].item() for y in range(2) for x in range(2) for channel in range(3)]
    assert to_rows(latent)[0].tolist() == want


def test_rows_of_channels_last_maps_are_a_view_and_go_back():
    latent = torch.zeros(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    latent += torch.arange(96.0).view(2, 3, 4, 4)
    assert to_rows(latent).data_ptr() == latent.data_ptr()
    assert torch.equal(to_maps(to_rows(latent), (3, 4, 4)), latent)


@pytest.mark.parametrize("shape", [(5, 3, 4, 4), (5, 12)])
def test_renormalised_latents_fill_the_unit_interval(shape):
    raw = normal(*shape) * 100 + 7
    latent = renormalize(raw)
    assert latent.flatten(1).amin(1).abs().max() == 0
    assert (latent.flatten(1).amax(1) - 1).abs().max() < 1e-5
    for sample, want in zip(latent, raw, strict=True):
        torch.testing.assert_close(sample, (want - want.min()) / (want.max() - want.min()))


@pytest.mark.parametrize("shape", [(5, 3, 4, 4), (5, 12)])
def test_the_gradient_of_renormalised_latents_is_that_of_the_formula(shape):
    latent = F.relu(normal(*shape).double())  # many entries tie for the minimum
    latent.flatten(1)[:, :2] = 9.0  # and two for the maximum
    latent.requires_grad_()
    low, high = (bound(latent.flatten(1), 1).view(-1, *(1 for _ in shape[1:])) for bound in (torch.amin, torch.amax))
    weights = torch.arange(latent.numel()).view(shape).sin()
    found, want = (
        torch.autograd.grad((weights * scaled).sum(), latent)[0]
        for scaled in (renormalize(latent), (latent - low) / (high - low + 1e-5))
    )
    torch.testing.assert_close(found, want)


def test_constant_latent_becomes_zero():
    assert renormalize(torch.full((1, 4), 3.0)).tolist() == [[0.0] * 4]


def test_dueling_logits_average_to_the_value_stream():
    network = build(SMALL)
    features = normal(5, 16)
    logits = network.q_logits(features)
    assert logits.shape == (5, 3, 11)
    torch.testing.assert_close(logits.mean(1), network.q_value(F.relu(features)), atol=1e-5, rtol=1e-5)
    advantage = network.q_advantage(F.relu(features)).view(5, 3, 11)
    torch.testing.assert_close(logits.diff(dim=1), advantage.diff(dim=1), atol=1e-5, rtol=1e-5)


def test_without_dueling_there_is_no_value_stream():
    network = build(NetworkConfig(width_scale=0.25, hidden_dim=16, dueling=False))
    assert not any(name.startswith("q_value") for name, _ in network.named_parameters())
    features = normal(2, 16)
    torch.testing.assert_close(network.q_logits(features).flatten(1), network.q_advantage(F.relu(features)))


def test_agent_without_policy_or_self_prediction_has_no_such_parts():
    network = build(NetworkConfig(width_scale=0.25, hidden_dim=16, policy=False), self_prediction=False)
    parts = {name.split(".")[0] for name, _ in network.named_parameters()}
    assert parts == {"encoder", "q_projection", "q_value", "q_advantage"}


def test_initial_weights_are_xavier_uniform_and_biases_zero():
    network = build(NetworkConfig(encoder="impala", width_scale=1.0, hidden_dim=256))
    for name, parameter in network.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
            continue
        fan_out, fan_in = parameter.shape[0], parameter.shape[1]
        bound = math.sqrt(6 / ((fan_in + fan_out) * math.prod(parameter.shape[2:])))
        assert parameter.abs().max() <= bound, name
        assert parameter.abs().max() > 0.9 * bound, name
        assert abs(parameter.std().item() / (bound / math.sqrt(3)) - 1) < 0.2, name


def test_parameters_are_drawn_from_the_generator_alone():
    first, second = build(SMALL), build(SMALL)
    torch.manual_seed(123)
    third = build(SMALL)
    for a, b, c in zip(first.parameters(), second.parameters(), third.parameters(), strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
    assert not torch.equal(first.q_projection.weight, build(SMALL, seed=1).q_projection.weight)


def step_by_step(model: TransitionModel, latent, actions, rescaled: bool):
    """The transition model as the paper says it: the one-hot action joins the latent, layer, relu, layer, relu."""
    first, second, *_ = model.children()
    latents = [latent]
    for action in actions:
        planes = F.one_hot(action, model.num_actions).to(latent.dtype)
        planes = planes.view(*planes.shape, *(1 for _ in latent.shape[2:])).expand(-1, -1, *latent.shape[2:])
        latent = F.relu(second(F.relu(first(torch.cat([latent, planes], 1)))))
        if rescaled:
            low, high = latent.flatten(1).amin(1), latent.flatten(1).amax(1)
            shape = (-1, *(1 for _ in latent.shape[1:]))
            latent = (latent - low.view(shape)) / (high - low + 1e-5).view(shape)
        latents.append(latent)
    return torch.stack(latents[1:])


@pytest.mark.parametrize("rescaled", [True, False])
@pytest.mark.parametrize("latent_shape", [(8, 6, 6), (4, 5, 3), (2, 1, 1), (8,), (3,)])
def test_roll_out_and_its_gradient_are_those_of_the_plain_steps(latent_shape, rescaled):
    torch.manual_seed(0)
    model = TransitionModel(latent_shape, 3, rescaled).double()
    actions = torch.tensor([[0, 1], [2, 0], [1, 1]])
    latent = torch.rand(2, *latent_shape, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(3, 2, *latent_shape, dtype=torch.float64)
    found, gradients = [], []
    for rolled in (model(latent, actions), step_by_step(model, latent, actions, rescaled)):
        found.append(rolled)
        gradients.append(torch.autograd.grad((rolled * weights).sum(), [latent, *model.parameters()]))
    torch.testing.assert_close(*found)
    torch.testing.assert_close(*gradients)
    assert any(gradient.abs().sum() > 0 for gradient in gradients[0])


def test_roll_out_of_no_steps_is_the_latent_itself():
    network = build(SMALL)
    latent = network.encode(normal(2, 4, 20, 20))
    rolled = network.roll_out(latent, torch.zeros(0, 2, dtype=torch.int64))
    assert torch.equal(rolled, to_rows(latent)[None])
