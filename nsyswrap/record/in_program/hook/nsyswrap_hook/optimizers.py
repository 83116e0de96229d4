"""End steps where PyTorch's optimizers have stepped, also by way of a GradScaler or a CUDA graph.

What is replaced in PyTorch, and why:

- ``Optimizer.__init__``: an optimizer takes part in steps before its first one
- the global hook after a step, since PyTorch 2.1; before, a note says that it is missing
- ``update`` of the scalers, which skip steps whose gradients are not finite: these end an iteration, too
- ``CUDAGraph.capture_end`` and ``replay``: a step that is captured does not run, each replay of it does
- ``TorchPatcher.patch`` of earlier compilers, which takes hooks off the optimizers: ``_counted`` replaces
  them

While torch.compile reads the code, constructions and steps do not count. ``IterationDetector`` says how many
training steps have ended with the step of an optimizer; it holds optimizers weakly.
"""

from __future__ import annotations

import functools
import sys
import weakref
from typing import TYPE_CHECKING, Any

from . import imports, module_calls, notes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .steps import StepRecorder

_SCALERS = {  # module -> class
    "torch.amp.grad_scaler": "GradScaler",
    "torch.cuda.amp.grad_scaler": "GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler": "ShardedGradScaler",
}
_MOST_PATIENCE = 17  # steps of another optimizer; GANs step one of theirs five times as often


class Optimizers:
    """Watches the optimizers of this process for ``steps``."""

    def __init__(self, steps: StepRecorder) -> None:
        self._steps = steps
        self._rounds = IterationDetector()
        self._stepped_since: set[int] = set()  # optimizers, since the last update of a scaler
        self._is_compiling = module_calls.is_compiling()
        self._seen = 0  # steps of optimizers
        self._capturing: list[object] = []  # stepping inside the CUDA graph being captured

    def watch(self) -> None:
        """Install hooks. Everything behaves as before."""
        optimizer: Any = sys.modules["torch.optim.optimizer"]
        optimizer.Optimizer.__init__ = self._noting_construction(optimizer.Optimizer.__init__)
        if hasattr(optimizer, "register_optimizer_step_post_hook"):
            optimizer.register_optimizer_step_post_hook(notes.guarded(self._after_step))
        else:
            notes.add(failures=["this PyTorch has no hook after an optimizer's step: it needs 2.1"])
        for module, name in _SCALERS.items():
            imports.after_import(module, functools.partial(self._watch_scaler, module, name))
        imports.after_import("torch._dynamo.eval_frame", self._watch_compiler)
        self._watch_graphs(sys.modules["torch"])

    def _noting_construction(self, construct: Any) -> Any:  # noqa: ANN401 - functions of PyTorch
        note = notes.guarded(self._rounds.constructed)

        @functools.wraps(construct)
        def noted(optimizer: object, *args: Any, **keywords: Any) -> None:
            construct(optimizer, *args, **keywords)
            if not self._is_compiling():
                note(optimizer)

        return noted

    def _after_step(self, optimizer: object, *_arguments: object) -> None:
        if self._is_compiling():
            return
        self._seen += 1
        if _is_capturing():  # nothing runs now; a replay does
            self._capturing.append(optimizer)
            return
        self._stepped_since.add(id(optimizer))
        self._steps.end(self._rounds.stepped(optimizer))

    def _watch_compiler(self) -> None:
        """Earlier compilers take all hooks off PyTorch's optimizers when they are first used."""
        patcher: Any = getattr(sys.modules["torch._dynamo.eval_frame"], "TorchPatcher", None)
        if patcher is None:
            return
        patch, keep_counting = patcher.patch, notes.guarded(self._keep_counting)

        @functools.wraps(patch)
        def patching() -> Any:  # noqa: ANN401
            result = patch()
            keep_counting()
            return result

        patcher.patch = staticmethod(patching)

    def _keep_counting(self) -> None:
        base: Any = sys.modules["torch.optim.optimizer"].Optimizer
        hooked = base.profile_hook_step(lambda _: None).__code__
        for kind in list(vars(sys.modules["torch.optim"]).values()):
            step = vars(kind).get("step") if isinstance(kind, type) and issubclass(kind, base) else None
            if getattr(step, "hooked", False) and getattr(step, "__code__", hooked) is not hooked:
                kind.step = self._counted(step)

    def _counted(self, step: Any) -> Any:  # noqa: ANN401
        after_step = notes.guarded(self._after_step)

        @functools.wraps(step)
        def stepping(optimizer: object, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            if self._is_compiling():
                return step(optimizer, *args, **keywords)
            seen = self._seen
            result = step(optimizer, *args, **keywords)
            if seen == self._seen:
                after_step(optimizer)
            return result

        return stepping

    def _watch_scaler(self, module: str, name: str) -> None:
        """A scaler skips the steps of optimizers whose gradients are not finite: its update counts then."""
        scaler = getattr(sys.modules[module], name)
        update = vars(scaler).get("update")
        if update is None or hasattr(update, "nsyswrap"):  # of a base class
            return
        skipped_by = notes.guarded(self._skipped_by)
        count = notes.guarded(self._count)

        @functools.wraps(update)
        def updating(self: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            skipped = skipped_by(self)
            result = update(self, *args, **keywords)
            count(skipped or [])
            return result

        updating.nsyswrap = True  # type: ignore[attr-defined]
        scaler.update = updating

    def _skipped_by(self, scaler: Any) -> list[object]:  # noqa: ANN401
        """Return the optimizers that this scaler was to step since its last update, and did not."""
        asked = [
            number
            for number, state in scaler._per_optimizer_states.items()  # noqa: SLF001
            if getattr(state.get("stage"), "name", "") == "STEPPED"
        ]
        skipped = [self._rounds.known(number) for number in asked if number not in self._stepped_since]
        self._stepped_since.difference_update(asked)
        return [optimizer for optimizer in skipped if optimizer is not None]

    def _count(self, optimizers: Iterable[object]) -> None:
        for optimizer in optimizers:
            self._steps.end(self._rounds.stepped(optimizer))

    def _watch_graphs(self, torch: Any) -> None:  # noqa: ANN401
        graph = torch.cuda.CUDAGraph
        capture_end, replay = graph.capture_end, graph.replay
        keep, count = notes.guarded(self._keep_captured), notes.guarded(self._count)

        @functools.wraps(capture_end)
        def ending(self: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            result = capture_end(self, *args, **keywords)
            keep(self)
            return result

        @functools.wraps(replay)
        def replaying(self: Any, *args: Any, **keywords: Any) -> Any:  # noqa: ANN401
            result = replay(self, *args, **keywords)
            count(getattr(self, "nsyswrap_optimizers", ()))
            return result

        graph.capture_end, graph.replay = ending, replaying

    def _keep_captured(self, graph: Any) -> None:  # noqa: ANN401
        graph.nsyswrap_optimizers = tuple(self._capturing)
        self._capturing.clear()


def _is_capturing() -> bool:
    cuda = sys.modules["torch"].cuda
    return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())


class _Optimizer:
    """What is known of one optimizer. ``patience``: so many steps of another one are waited for its own."""

    def __init__(self, reference: weakref.ref[object]) -> None:
        self.reference = reference
        self.steps = 0
        self.patience = _MOST_PATIENCE


class IterationDetector:
    """Counts a step each time that all optimizers which take part have stepped.

    An optimizer takes part from its construction on, or from its first step. If another one steps twice
    before its first step, it takes no part. If another one steps much more often than usual before its next
    step, it takes no part any longer. Such steps are counted then, late. One that takes part again, or for
    the first time, after a step has ended, is the last one from then on.
    """

    def __init__(self) -> None:
        self._taking: dict[int, _Optimizer] = {}
        self._stepped: dict[int, int] = {}  # in this round: optimizer -> steps
        self._newcomers: set[int] = set()  # stepped right after the end of the round before
        self._any_ended = False

    def constructed(self, optimizer: object) -> None:
        """Note a new optimizer."""
        number = id(optimizer)
        self._taking[number] = _Optimizer(weakref.ref(optimizer, lambda _: self._leave(number)))

    def known(self, number: int) -> object | None:
        """Return the optimizer with this ``id``, None if it is gone or takes no part."""
        one = self._taking.get(number)
        return one.reference() if one else None

    def stepped(self, optimizer: object) -> int:
        """Note a step of an optimizer; return the number of training steps that have ended with it."""
        number = id(optimizer)
        is_new = number not in self._taking
        if is_new:
            self.constructed(optimizer)
        self._taking[number].steps += 1
        if is_new and self._any_ended and not self._stepped:
            self._newcomers.add(number)
            return 0
        ended = self._step(number)
        self._any_ended |= ended > 0
        return ended

    def _step(self, number: int) -> int:
        ended = 0
        again = self._stepped[number] = self._stepped.get(number, 0) + 1
        if again > 1:
            for other, one in list(self._taking.items()):
                if other not in self._stepped and (not one.steps or again > one.patience):
                    self._leave(other)
            if len(self._stepped) == len(self._taking):  # steps have ended without being counted
                ended = again - 1 + (number in self._newcomers)
                self._stepped = {number: 1}
        if len(self._stepped) < len(self._taking):
            return ended
        most = max(self._stepped.values()) if len(self._stepped) > 1 else 0
        for stepped in self._stepped:
            self._taking[stepped].patience = min(2 * most + 1, _MOST_PATIENCE)
        self._stepped.clear()
        self._newcomers.clear()
        return ended + 1

    def _leave(self, number: int) -> None:
        self._taking.pop(number, None)
        self._stepped.pop(number, None)
