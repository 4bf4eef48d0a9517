"""Finds the modules that are installed here, but not by certain packages."""

from __future__ import annotations

from importlib.metadata import distribution, packages_distributions

from packaging.requirements import Requirement


def not_brought_by(*packages: str) -> set[str]:
    """Returns the modules that are installed, but not by these packages (`google-adk[db]`) and what they need."""
    allowed, wanted = set[Requirement](), list(packages)
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement not in allowed:
            allowed.add(requirement)
            extras = requirement.extras or {""}
            needs = map(Requirement, distribution(requirement.name).requires or [])
            wanted += [
                str(each)
                for each in needs
                if not each.marker or any(each.marker.evaluate({"extra": e}) for e in extras)
            ]
    names = {_plain(each.name) for each in allowed}
    owners = packages_distributions().items()
    return {module for module, names_of in owners if not names & {*map(_plain, names_of)}}


def _plain(name: str) -> str:
    return name.lower().replace("_", "-")
