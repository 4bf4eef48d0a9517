"""adkweb's settings, but it waits a second for its own database where users wait twenty."""

from adkweb.settings import *  # noqa: F403

DATABASES["default"]["OPTIONS"]["timeout"] = 1  # noqa: F405
