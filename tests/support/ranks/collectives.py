"""Every collective that gloo has, of ``torch.distributed``, ``_functional_collectives`` and ``distributed.nn``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
from torch import Tensor

from support.ranks.cases import RANKS, Built, batch, case

AVG, MAX = dist.ReduceOp.AVG, dist.ReduceOp.MAX


def collective(group: str, name: str, **options: Any) -> Callable[[Callable[[Tensor, int], Any]], Any]:
    """Add a function of a tensor [4, 2] and of the rank."""

    def add(run: Callable[[Tensor, int], Any]) -> Any:
        def build(rank: int) -> Built:
            return Built(lambda x: run(x.clone(), rank), (batch(rank, 4, 2),))

        case(group, name, **options)(build)
        return run

    return add


# ----------------------------------------------------------------------------------- torch.distributed
IN_PLACE = "torch.distributed"


def reduction(name: str, **options: Any) -> None:
    @collective(IN_PLACE, f"all_reduce, {name}", **options)
    def run(x: Tensor, _: int) -> Any:
        dist.all_reduce(x, op=getattr(dist.ReduceOp, name))
        return x


for each in ("SUM", "AVG", "MAX", "MIN"):
    reduction(each)
reduction("PRODUCT", refused="capture-collective")


@collective(IN_PLACE, "all_reduce, bits (BAND, BOR, BXOR)", refused="capture-collective")
def _(x: Tensor, _: int) -> Any:
    whole = x.long().abs()
    dist.all_reduce(whole, op=dist.ReduceOp.BAND)
    return whole


@collective(IN_PLACE, "all_reduce of whole numbers")
def _(x: Tensor, _: int) -> Any:
    whole = x.long()
    dist.all_reduce(whole)
    return whole


@collective(IN_PLACE, "all_reduce of a transposed tensor")
def _(x: Tensor, _: int) -> Any:
    y = (x * 2).t().contiguous()
    dist.all_reduce(y[0])
    return y


@collective(IN_PLACE, "all_reduce, async_op")
def _(x: Tensor, _: int) -> Any:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x + 1
    work.wait()
    return y + z


@collective(IN_PLACE, "all_reduce read before wait()", refused="capture-race", run=False)
def _(x: Tensor, _: int) -> Any:
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = y + 1
    work.wait()
    return z


@collective(IN_PLACE, "all_reduce, get_future().wait()", refused="capture-collective")
def _(x: Tensor, _: int) -> Any:
    y = x * 2
    dist.all_reduce(y, async_op=True).get_future().wait()
    return y


@collective(IN_PLACE, "all_reduce, get_future().then()", refused="capture-collective")
def _(x: Tensor, _: int) -> Any:
    y = x * 2
    future = dist.all_reduce(y, async_op=True).get_future().then(lambda f: f.value()[0] / RANKS)
    return future.wait()


@collective(IN_PLACE, "all_reduce_coalesced")
def _(x: Tensor, _: int) -> Any:
    xs = [x * 2, x[0] + 1]
    dist.all_reduce_coalesced(xs)
    return xs


@collective(IN_PLACE, "_coalescing_manager")
def _(x: Tensor, _: int) -> Any:
    a, b = x * 2, x[0] + 1
    with dist._coalescing_manager():
        dist.all_reduce(a)
        dist.all_reduce(b)
    return a, b


@collective(IN_PLACE, "all_gather")
def _(x: Tensor, _: int) -> Any:
    parts = [torch.empty_like(x) for _ in range(RANKS)]
    dist.all_gather(parts, x)
    return parts


@collective(IN_PLACE, "all_gather, other sizes on every rank", refused="capture-collective", run=False)
def _(x: Tensor, rank: int) -> Any:
    parts = [torch.empty(member + 1, 2) for member in range(RANKS)]
    dist.all_gather(parts, x[: rank + 1].contiguous())
    return parts


@collective(IN_PLACE, "all_gather, async_op")
def _(x: Tensor, _: int) -> Any:
    parts = [torch.empty_like(x) for _ in range(RANKS)]
    dist.all_gather(parts, x, async_op=True).wait()
    return parts


@collective(IN_PLACE, "all_gather_into_tensor, concatenated")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(4 * RANKS, 2)
    dist.all_gather_into_tensor(out, x)
    return out


@collective(IN_PLACE, "all_gather_coalesced")
def _(x: Tensor, _: int) -> Any:
    parts = [[torch.empty_like(x), torch.empty_like(x[0])] for _ in range(RANKS)]
    dist.all_gather_coalesced(parts, [x, x[0].contiguous()])
    return parts


@collective(IN_PLACE, "reduce_scatter")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(2)
    dist.reduce_scatter(out, [part.contiguous() for part in x.unbind(0)])
    return out


@collective(IN_PLACE, "reduce_scatter, AVG")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(2)
    dist.reduce_scatter(out, [part.contiguous() for part in x.unbind(0)], op=AVG)
    return out


@collective(IN_PLACE, "reduce_scatter_tensor")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(1, 2)
    dist.reduce_scatter_tensor(out, x)
    return out


@collective(IN_PLACE, "all_to_all")
def _(x: Tensor, _: int) -> Any:
    out = [torch.empty(2) for _ in range(RANKS)]
    dist.all_to_all(out, [part.contiguous() for part in x.unbind(0)])
    return out


@collective(IN_PLACE, "reduce_scatter_tensor, MAX")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(1, 2)
    dist.reduce_scatter_tensor(out, x, op=MAX)
    return out


@collective(IN_PLACE, "all_to_all_single")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(4, 2)
    dist.all_to_all_single(out, x)
    return out


@collective(IN_PLACE, "all_to_all_single, splits")
def _(x: Tensor, rank: int) -> Any:
    sizes = [(rank + member) % 3 + 1 for member in range(RANKS)]
    wide = torch.cat([x, x + 1, x + 2])[: sum(sizes)]
    out = torch.empty(sum(sizes), 2)
    dist.all_to_all_single(out, wide, sizes, sizes)
    return out


@collective(IN_PLACE, "broadcast")
def _(x: Tensor, _: int) -> Any:
    dist.broadcast(x, 2)
    return x


@collective(IN_PLACE, "broadcast, async_op")
def _(x: Tensor, _: int) -> Any:
    work = dist.broadcast(x, group_src=1, async_op=True)
    work.wait()
    return x


@collective(IN_PLACE, "reduce, on the destination")
def _(x: Tensor, rank: int) -> Any:
    dist.reduce(x, 1)
    return x if rank == 1 else torch.zeros_like(x)


@collective(IN_PLACE, "reduce, on the other ranks", refused="capture-collective")
def _(x: Tensor, _: int) -> Any:
    dist.reduce(x, 1)
    return x


@collective(IN_PLACE, "gather")
def _(x: Tensor, rank: int) -> Any:
    parts = [torch.empty_like(x) for _ in range(RANKS)] if rank == 1 else None
    dist.gather(x, parts, dst=1)
    return torch.stack(parts) if parts else x


@collective(IN_PLACE, "scatter")
def _(x: Tensor, rank: int) -> Any:
    out = torch.empty(2)
    dist.scatter(out, [part.contiguous() for part in x.unbind(0)] if rank == 1 else None, src=1)
    return out


@collective(IN_PLACE, "send, recv")
def _(x: Tensor, rank: int) -> Any:
    got = torch.zeros_like(x)
    if rank % 2 == 0:
        dist.send(x, rank + 1)
        dist.recv(got, rank + 1)
    else:
        dist.recv(got, rank - 1)
        dist.send(x, rank - 1)
    return got


@collective(IN_PLACE, "recv from any rank", refused="capture-collective", run=False)
def _(x: Tensor, rank: int) -> Any:
    got = torch.zeros_like(x)
    dist.recv(got)
    return got


@collective(IN_PLACE, "isend, irecv, tags")
def _(x: Tensor, rank: int) -> Any:
    first, second = torch.zeros_like(x), torch.zeros_like(x)
    to, source = (rank + 1) % RANKS, (rank - 1) % RANKS
    doubled = x * 2
    work = [dist.isend(x, to, tag=1), dist.isend(doubled, to, tag=2)]
    work += [dist.irecv(second, source, tag=2), dist.irecv(first, source, tag=1)]
    for one in work:
        one.wait()
    return first - second


@collective(IN_PLACE, "batch_isend_irecv")
def _(x: Tensor, rank: int) -> Any:
    got = torch.zeros_like(x)
    operations = [
        dist.P2POp(dist.isend, x, (rank + 1) % RANKS),
        dist.P2POp(dist.irecv, got, (rank - 1) % RANKS),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return got


@collective(IN_PLACE, "barrier")
def _(x: Tensor, _: int) -> Any:
    dist.barrier()
    return x * 3


@collective(IN_PLACE, "monitored_barrier", refused="capture")
def _(x: Tensor, _: int) -> Any:
    dist.monitored_barrier()
    return x * 4


@collective(IN_PLACE, "ProcessGroup.allreduce")
def _(x: Tensor, _: int) -> Any:
    dist.group.WORLD.allreduce([x]).wait()
    return x


@collective(IN_PLACE, "tensors of the autograd graph")
def _(x: Tensor, _: int) -> Any:
    weight = torch.ones(2, requires_grad=True)
    y = (x * weight).sum(0)
    with torch.no_grad():
        dist.all_reduce(y)
    return y.detach()


@case(IN_PLACE, "all_reduce over a group of two (new_group)")
def _(rank: int) -> Built:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]

    def run(x: Tensor) -> Tensor:
        y = x * 2
        dist.all_reduce(y, group=groups[rank // 2])
        return y

    return Built(run, (batch(rank, 4, 2),))


@collective(IN_PLACE, "all_gather_single, concatenated")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(4 * RANKS, 2)
    dist.all_gather_single(out, x)
    return out


@collective(IN_PLACE, "all_gather_single, async_op")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(4 * RANKS, 2)
    dist.all_gather_single(out, x, async_op=True).wait()
    return out


@collective(IN_PLACE, "reduce_scatter_single")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(1, 2)
    dist.reduce_scatter_single(out, x)
    return out


@collective(IN_PLACE, "reduce_scatter_single, AVG, async_op")
def _(x: Tensor, _: int) -> Any:
    out = torch.empty(1, 2)
    dist.reduce_scatter_single(out, x, op=AVG, async_op=True).wait()
    return out


@collective(IN_PLACE, "_coalescing_manager of all_gather_single and reduce_scatter_single")
def _(x: Tensor, _: int) -> Any:
    whole, more, part = torch.empty(16, 2), torch.empty(16, 2), torch.empty(1, 2)
    y = x * 2
    with dist._coalescing_manager():
        dist.all_gather_single(whole, x)
        dist.all_gather_single(more, y)
    with dist._coalescing_manager():
        dist.reduce_scatter_single(part, x)
    return whole, more, part


def over_groups(name: str, make: Callable[[], Any], **options: Any) -> None:
    """Add a sum over a group that is made before the step."""

    @case(IN_PLACE, name, **options)
    def build(rank: int) -> Built:
        group = make()

        def run(x: Tensor) -> Tensor:
            y = x * 2
            dist.all_reduce(y, group=group)
            return y

        return Built(run, (batch(rank, 4, 2),))


over_groups("new_subgroups", lambda: dist.new_subgroups(2)[0])
over_groups("new_subgroups_by_enumeration", lambda: dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])[0])
over_groups("split_group", lambda: dist.split_group(split_ranks=[[0, 1], [2, 3]]), refused="capture-build", run=False)
over_groups("shrink_group", lambda: dist.shrink_group([3]), refused="capture-build", run=False)


@case(IN_PLACE, "new_group by the step")
def _(rank: int) -> Built:
    def run(x: Tensor) -> Tensor:
        y = x * 2
        dist.all_reduce(y, group=dist.new_group([0, 1, 2, 3]))
        return y

    return Built(run, (batch(rank, 4, 2),))


@collective(IN_PLACE, "record_comm")
def _(x: Tensor, _: int) -> Any:
    with dist.record_comm("sum"):
        dist.all_reduce(x)
    return x


@collective(IN_PLACE, "get_rank, get_world_size, get_group_rank, get_global_rank, get_process_group_ranks")
def _(x: Tensor, _: int) -> Any:
    world = dist.group.WORLD
    here = dist.get_rank() + dist.get_group_rank(world, 2) + dist.get_global_rank(world, 1)
    return x * (here + dist.get_world_size() + sum(dist.get_process_group_ranks(world)))


@case(IN_PLACE, "init_device_mesh")
def _(rank: int) -> Built:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))

    def run(x: Tensor) -> Tensor:
        y = x * 2
        dist.all_reduce(y, group=mesh.get_group("a"))
        return y + mesh.get_local_rank("b")

    return Built(run, (batch(rank, 4, 2),))


@collective(IN_PLACE, "recv_object_list", refused="capture-collective")
def _(x: Tensor, rank: int) -> Any:
    mine = [rank + 1]
    if rank == 0:
        dist.send_object_list(mine, dst=1)
    elif rank == 1:
        dist.recv_object_list(mine, src=0)
    return x * mine[0]


OBJECTS = ("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "send_object_list")


def objects(name: str) -> None:
    sent = name == "send_object_list"

    @collective(IN_PLACE, name, run=not sent, **({"refused": "capture-collective"} if sent else {}))
    def run(x: Tensor, rank: int) -> Any:
        mine = [rank + 1, None, None, None]
        if name == "all_gather_object":
            dist.all_gather_object(mine, rank)
        elif name == "gather_object":
            dist.gather_object(rank, mine if rank == 0 else None)
        elif name == "broadcast_object_list":
            dist.broadcast_object_list(mine, src=0)
        elif name == "scatter_object_list":
            dist.scatter_object_list(mine, [1, 2, 3, 4] if rank == 0 else None)
        else:
            dist.send_object_list(mine, dst=1)
        return x * mine[0]


for each in OBJECTS:
    objects(each)


# --------------------------------------------------------------- torch.distributed._functional_collectives
FUNCTIONAL = "torch.distributed._functional_collectives"
WORLD = list(range(RANKS))


def gradient(run: Callable[[Tensor], Tensor], x: Tensor) -> Any:
    """The value of a function, and what its backward pass gives."""
    x = x.detach().requires_grad_()
    y = run(x)
    weight = torch.arange(y.numel()).reshape(y.shape) + 1.0
    (found,) = torch.autograd.grad((y * y * weight).sum(), x)
    return y.detach() + 0, found


def functional_cases() -> None:
    def add(name: str, run: Callable[[Tensor, int], Any]) -> None:
        collective(FUNCTIONAL, name)(run)

    add("all_reduce", lambda x, _: functional.all_reduce(x, "sum", WORLD) + 0)
    add("all_reduce, avg", lambda x, _: functional.all_reduce(x, "avg", WORLD) + 0)
    add("all_gather_tensor", lambda x, _: functional.all_gather_tensor(x, 0, WORLD) + 0)
    add("all_gather_tensor, dim 1", lambda x, _: functional.all_gather_tensor(x, 1, WORLD) + 0)
    add("reduce_scatter_tensor", lambda x, _: functional.reduce_scatter_tensor(x, "sum", 0, WORLD) + 0)
    add("reduce_scatter_tensor, dim 1", lambda x, _: functional.reduce_scatter_tensor(x.t() + 0, "sum", 1, WORLD) + 0)
    add("all_to_all_single", lambda x, _: functional.all_to_all_single(x, None, None, WORLD) + 0)
    add("broadcast", lambda x, _: functional.broadcast(x, 1, WORLD) + 0)
    add("permute_tensor", lambda x, _: functional.permute_tensor(x.reshape(-1), [1, 2, 3, 0], WORLD) + 0)
    add("all_reduce_coalesced", lambda x, _: [y + 0 for y in functional.all_reduce_coalesced([x, x[0]], "sum", WORLD)])
    add(
        "all_gather_into_tensor_coalesced",
        lambda x, _: [y + 0 for y in functional.all_gather_into_tensor_coalesced([x, x[:1]], WORLD)],
    )
    add(
        "reduce_scatter_tensor_coalesced",
        lambda x, _: [y + 0 for y in functional.reduce_scatter_tensor_coalesced([x, x * 2], "sum", [0, 0], WORLD)],
    )
    add(
        "all_gather_tensor_autograd",
        lambda x, _: gradient(lambda y: functional.all_gather_tensor_autograd(y, 0, WORLD), x),
    )
    add(
        "reduce_scatter_tensor_autograd",
        lambda x, _: gradient(lambda y: functional.reduce_scatter_tensor_autograd(y, "sum", 0, WORLD), x),
    )
    add(
        "all_to_all_single_autograd",
        lambda x, _: gradient(lambda y: functional.all_to_all_single_autograd(y, [1] * 4, [1] * 4, WORLD), x),
    )
    add("all_gather_single", lambda x, _: functional.all_gather_single(x, 0, WORLD) + 0)
    add("reduce_scatter_single", lambda x, _: functional.reduce_scatter_single(x, "sum", 0, WORLD) + 0)
    add(
        "all_gather_single_autograd",
        lambda x, _: gradient(lambda y: functional.all_gather_single_autograd(y, 0, WORLD), x),
    )
    add(
        "reduce_scatter_single_autograd",
        lambda x, _: gradient(lambda y: functional.reduce_scatter_single_autograd(y, "sum", 0, WORLD), x),
    )
    add(
        "all_gather_single_coalesced",
        lambda x, _: [y + 0 for y in functional.all_gather_single_coalesced([x, x[:1]], WORLD)],
    )
    add(
        "reduce_scatter_single_coalesced",
        lambda x, _: [y + 0 for y in functional.reduce_scatter_single_coalesced([x, x * 2], "sum", [0, 0], WORLD)],
    )
    add("wait_tensor", lambda x, _: functional.wait_tensor(functional.all_reduce(x, "sum", WORLD)) * 2)
    add("all_reduce with autograd", lambda x, _: gradient(lambda y: functional.all_reduce(y, "sum", WORLD), x))


functional_cases()

# ------------------------------------------------------------------------- torch.distributed.nn.functional
WITH_GRADIENTS = "torch.distributed.nn.functional"


def with_gradients(name: str, run: Callable[[Tensor, int], Tensor]) -> None:
    collective(WITH_GRADIENTS, name)(lambda x, rank: gradient(lambda y: run(y, rank), x))


def _parts(x: Tensor) -> list[Tensor]:
    return [part.contiguous() for part in x.unbind(0)]


@collective(WITH_GRADIENTS, "reduce, on the destination")
def _(x: Tensor, rank: int) -> Any:
    y = x.detach().requires_grad_()
    whole = differentiable.reduce(y, 1)
    whole.backward(torch.arange(8.0).reshape(4, 2))
    return (whole.detach() + 0 if rank == 1 else torch.zeros_like(x)), y.grad


@collective(WITH_GRADIENTS, "reduce, on the other ranks", refused="capture-collective")
def _(x: Tensor, _: int) -> Any:
    return differentiable.reduce(x, 1)


with_gradients("all_reduce", lambda x, _: differentiable.all_reduce(x))
with_gradients("all_gather", lambda x, _: torch.cat(differentiable.all_gather(x)))
with_gradients("broadcast", lambda x, _: differentiable.broadcast(x, 1))
with_gradients("gather", lambda x, _: torch.stack(differentiable.gather(x, dst=0)))
with_gradients("scatter", lambda x, _: differentiable.scatter(_parts(x), src=0))
with_gradients("reduce_scatter", lambda x, _: differentiable.reduce_scatter(torch.empty(2), _parts(x)))
with_gradients("all_to_all", lambda x, _: torch.stack(list(differentiable.all_to_all([torch.empty(2)] * 4, _parts(x)))))
with_gradients("all_to_all_single", lambda x, _: differentiable.all_to_all_single(torch.empty(4, 2), x))
