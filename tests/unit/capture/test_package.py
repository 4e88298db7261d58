"""``tantamount.capture`` is a package that is called: what tools see of it."""

from __future__ import annotations

import inspect
import pydoc

import pytest

import tantamount as tt
from tantamount import capture as package
from tantamount.errors import UserError


def test_its_signature_is_that_of_what_is_called() -> None:
    pytest.importorskip("torch", reason="capture needs PyTorch")
    from tantamount.capture.torch.programs import capture

    assert inspect.signature(tt.capture) == inspect.signature(capture)
    assert list(inspect.signature(tt.capture).parameters)[:2] == ["function", "args"]
    assert (capture.__doc__ or "").splitlines()[0] in pydoc.plain(pydoc.render_doc(tt.capture))


def test_without_pytorch_there_is_no_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise UserError("torch-version", place="capture", found="no PyTorch", needed="PyTorch")

    monkeypatch.setattr(package, "require_torch", missing)
    assert not hasattr(package, "__signature__")
