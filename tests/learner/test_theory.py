"""The paper's lemmas on random finite MDPs, with the shipped equations in float64.

Each MDP is solved apart from them: a linear system for Q^pi, value iteration and a linear program for Q*.
"""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

from sacbbf.learner import losses

SEEDS = range(8)
every_mdp = pytest.mark.parametrize("seed", SEEDS)


@dataclass(frozen=True)
class MDP:
    reward: np.ndarray  # (S, A)
    transition: np.ndarray  # (S, A, S), rows sum to one
    terminal: np.ndarray  # (S, A) bool: the episode ends with this step
    gamma: float

    @property
    def shape(self):
        return self.reward.shape

    @property
    def continuation(self):
        """Discounted chance (S, A, S) of going on in each state."""
        return self.gamma * self.transition * ~self.terminal[:, :, None]


def random_mdp(seed, gamma=0.9):
    """3 to 8 states, 2 to 4 actions, rewards in [-1, 1], a tenth of all steps terminal."""
    rng = np.random.default_rng([seed, 0])
    states, actions = int(rng.integers(3, 9)), int(rng.integers(2, 5))
    return MDP(
        reward=rng.uniform(-1.0, 1.0, (states, actions)),
        transition=rng.dirichlet(np.full(states, 0.5), (states, actions)),
        terminal=rng.random((states, actions)) < 0.1,
        gamma=gamma,
    )


def random_policy(seed, mdp):
    return np.random.default_rng([seed, 1]).dirichlet(np.ones(mdp.shape[1]), mdp.shape[0])


def logits_of(policy):
    with np.errstate(divide="ignore"):  # the logit of an action never taken is -inf
        return torch.from_numpy(np.log(policy))


# --- oracles ------------------------------------------------------------------------------------------------


def solve_q(mdp, policy):
    """Q^pi (S, A): solve (I - gamma P Pi) q = r."""
    size = mdp.reward.size
    step = np.einsum("sau,ub->saub", mdp.continuation, policy).reshape(size, size)
    return np.linalg.solve(np.eye(size) - step, mdp.reward.ravel()).reshape(mdp.shape)


def solve_by_value_iteration(mdp, sweeps=500):
    q = np.zeros(mdp.shape)
    for _ in range(sweeps):
        q = mdp.reward + mdp.continuation @ q.max(axis=1)
    return q


def solve_by_linear_program(mdp):
    """Smallest V with V(s) >= r(s, a) + gamma sum p V for all s, a; then Q* from V."""
    states, actions = mdp.shape
    stay = np.repeat(np.eye(states), actions, axis=0)  # row (s, a) picks V(s)
    leave = mdp.continuation.reshape(-1, states)
    solution = linprog(np.ones(states), A_ub=leave - stay, b_ub=-mdp.reward.ravel(), bounds=(None, None))
    assert solution.success, solution.message
    return mdp.reward + mdp.continuation @ solution.x


# --- the shipped equations on a whole MDP -------------------------------------------------------------------


def next_state_mean(mdp, values):
    """Average values (S, ...) over the next state of every (s, a): (S * A, ...)."""
    return torch.einsum("sau,u...->sa...", torch.from_numpy(mdp.transition), values).flatten(0, 1)


def bellman(mdp, q, bootstrap):
    """Eq. 7 on q (S, A): `bootstrap` maps values (S, A, 1) to the next state's value (S, 1)."""
    values = bootstrap(torch.from_numpy(q)[:, :, None])
    target = losses.target_value(
        next_state_mean(mdp, values[:, 0]),
        torch.from_numpy(mdp.reward).flatten(),
        torch.full((q.size,), mdp.gamma, dtype=torch.float64),
        torch.from_numpy(mdp.terminal).flatten(),
    )
    return target.reshape(q.shape).numpy()


def bellman_policy(mdp, q, policy):
    return bellman(mdp, q, lambda values: losses.backup_expected(values, logits_of(policy)))


def bellman_optimal(mdp, q):
    return bellman(mdp, q, lambda values: losses.backup_greedy(values, torch.from_numpy(q)))


def improve(q, floor=0.0):
    """Eq. 8 by the shipped loss, over the policies that give every action at least `floor`.

    The loss is linear in the policy, so one of the corners is the best: each prefers one action.
    """
    states, actions = q.shape
    corners = floor + (1.0 - actions * floor) * np.eye(actions)  # (A, A)
    loss = [
        losses.policy_gradient_expected(logits_of(corner).expand(states, -1), torch.from_numpy(q)).numpy()
        for corner in corners
    ]
    return corners[np.argmin(loss, axis=0)]


# --- policy iteration ---------------------------------------------------------------------------------------


@every_mdp
@pytest.mark.parametrize("scale", [0.0, 1.0, 1000.0])
def test_lemma_4_1_evaluation_converges_from_any_start(seed, scale):
    mdp = random_mdp(seed)
    policy = random_policy(seed, mdp)
    q = scale * np.random.default_rng([seed, 2]).standard_normal(mdp.shape)
    exact = solve_q(mdp, policy)
    error = np.abs(q - exact).max()
    for _ in range(400):
        q = bellman_policy(mdp, q, policy)
        closer = np.abs(q - exact).max()
        assert closer <= mdp.gamma * error + 1e-10  # a contraction by gamma
        error = closer
    np.testing.assert_allclose(q, exact, atol=1e-10)


@every_mdp
def test_lemma_4_1_sampled_backups_average_to_eq_7(seed):
    mdp = random_mdp(seed)
    policy, q = random_policy(seed, mdp), np.random.default_rng([seed, 2]).standard_normal(mdp.shape)
    states, actions = mdp.shape

    def average(values):
        drawn = [losses.backup_sampled(values, torch.full((states,), action)) for action in range(actions)]
        return sum(torch.from_numpy(policy)[:, a, None] * drawn[a] for a in range(actions))

    np.testing.assert_allclose(bellman(mdp, q, average), bellman_policy(mdp, q, policy), atol=1e-12)


@every_mdp
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_lemma_4_2_improvement_lowers_q_nowhere(seed, floor):
    mdp = random_mdp(seed)
    policy = floor + (1.0 - mdp.shape[1] * floor) * random_policy(seed, mdp)
    old = solve_q(mdp, policy)
    new = solve_q(mdp, improve(old, floor))
    assert (new >= old - 1e-12).all()
    assert new.sum() > old.sum()


@every_mdp
def test_lemma_4_2_gradient_steps_towards_eq_8_lower_q_nowhere(seed):
    """A step that raises E_pi[Q] in every state improves the policy, maximiser or not."""
    mdp = random_mdp(seed)
    logits = logits_of(random_policy(seed, mdp))
    old = solve_q(mdp, torch.softmax(logits, dim=-1).numpy())
    for _ in range(20):
        logits.requires_grad_()
        loss = losses.policy_gradient_expected(logits, torch.from_numpy(old)).sum()
        logits = (logits - 0.5 * torch.autograd.grad(loss, logits)[0]).detach()
        new = solve_q(mdp, torch.softmax(logits, dim=-1).numpy())
        assert (new >= old - 1e-12).all()
        assert new.sum() > old.sum()
        old = new


@every_mdp
def test_theorem_4_3_alternation_reaches_the_optimum(seed):
    mdp = random_mdp(seed)
    policy = random_policy(seed, mdp)
    for _ in range(30):
        policy = improve(solve_q(mdp, policy))
    reached = solve_q(mdp, policy)
    np.testing.assert_allclose(reached, solve_by_value_iteration(mdp), atol=1e-9)
    np.testing.assert_allclose(reached, solve_by_linear_program(mdp), atol=1e-6)


@every_mdp
def test_theorem_4_3_alternation_of_sweeps_reaches_the_optimum(seed):
    """The same with the shipped Eq. 7 for evaluation, a few sweeps at a time."""
    mdp = random_mdp(seed)
    q, policy = np.zeros(mdp.shape), random_policy(seed, mdp)
    for _ in range(120):
        for _ in range(3):
            q = bellman_policy(mdp, q, policy)
        policy = improve(q)
    np.testing.assert_allclose(q, solve_by_value_iteration(mdp), atol=1e-9)


@every_mdp
def test_greedy_backups_reach_the_same_optimum(seed):
    mdp = random_mdp(seed)
    q = np.zeros(mdp.shape)
    for _ in range(300):
        q = bellman_optimal(mdp, q)
    np.testing.assert_allclose(q, solve_by_linear_program(mdp), atol=1e-6)


# --- policy gradient ----------------------------------------------------------------------------------------


def linear_policy(seed, mdp, features=3):
    """Logits (S, A) of a policy whose few parameters theta are shared by all states, and theta."""
    rng = np.random.default_rng([seed, 3])
    inputs = torch.from_numpy(rng.standard_normal((mdp.shape[0], features)))
    theta = torch.from_numpy(rng.standard_normal((features, mdp.shape[1]))).requires_grad_()
    return inputs @ theta, theta


def objectives_gradient(logits, theta, q):
    """Left-hand side of Eq. 9, by differentiating E_pi[Q], summed over states."""
    objective = (torch.softmax(logits, dim=-1) * q).sum()
    return torch.autograd.grad(objective, theta, retain_graph=True)[0]


def enumerated_gradient(logits, theta, q, variance_reduction):
    """Right-hand side of Eq. 9 or 10: the sampled gradient of every action, weighed by the policy."""
    total = torch.zeros_like(theta)
    for state in range(len(q)):
        row = logits[state : state + 1]
        chances = torch.softmax(row.detach(), dim=-1)[0]
        for action in range(q.shape[1]):
            loss = losses.policy_gradient_sampled(row, q[state : state + 1], torch.tensor([action]), variance_reduction)
            total -= chances[action] * torch.autograd.grad(loss.sum(), theta, retain_graph=True)[0]
    return total


@every_mdp
@pytest.mark.parametrize(
    "variance_reduction", [pytest.param(False, id="lemma_4_4"), pytest.param(True, id="lemma_4_5")]
)
def test_enumerated_policy_gradient_is_the_objectives_gradient(seed, variance_reduction):
    mdp = random_mdp(seed)
    q = torch.from_numpy(solve_q(mdp, random_policy(seed, mdp)))
    logits, theta = linear_policy(seed, mdp)
    enumerated = enumerated_gradient(logits, theta, q, variance_reduction)
    torch.testing.assert_close(enumerated, objectives_gradient(logits, theta, q), rtol=1e-9, atol=1e-12)


# --- the distributional form --------------------------------------------------------------------------------


def iterate_distributions(mdp, policy, atoms, sweeps=300):
    """Apply the projected, distributional Eq. 7 to uniform distributions: probabilities (S, A, N)."""
    probs = torch.full((*mdp.shape, len(atoms)), 1.0 / len(atoms), dtype=torch.float64)
    for _ in range(sweeps):
        bootstrap = next_state_mean(mdp, losses.backup_expected(probs, logits_of(policy)))
        probs = losses.target_distribution(
            bootstrap,
            torch.from_numpy(mdp.reward).flatten(),
            torch.full((mdp.reward.size,), mdp.gamma, dtype=torch.float64),
            torch.from_numpy(mdp.terminal).flatten(),
            atoms,
        ).reshape(probs.shape)
    return probs


@every_mdp
def test_distributional_evaluation_has_the_mean_of_q(seed):
    """Rewards in [-1, 1] at gamma 0.9 keep every shifted atom inside [-10, 10]: no mass is ever clipped."""
    mdp = random_mdp(seed, gamma=0.9)
    policy = random_policy(seed, mdp)
    atoms = losses.support(41, 10.0, torch.device("cpu")).double()  # spacing 0.5, exact in float32
    probs = iterate_distributions(mdp, policy, atoms)
    torch.testing.assert_close(probs.sum(dim=-1), torch.ones(mdp.shape, dtype=torch.float64))
    q = losses.expected_value(probs.log(), atoms).numpy()
    np.testing.assert_allclose(q, solve_q(mdp, policy), atol=1e-9)
