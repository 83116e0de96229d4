"""Tell from the steps of the optimizers when a step of the training has ended."""

from __future__ import annotations

import weakref

_MOST_PATIENCE = 17  # steps of another optimizer; GANs step one of theirs five times as often


class _Optimizer:
    """What is known of one optimizer. ``patience``: so many steps of another one are waited for its own."""

    def __init__(self, reference: weakref.ref[object]) -> None:
        self.reference = reference
        self.steps = 0
        self.patience = _MOST_PATIENCE


class Rounds:
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
