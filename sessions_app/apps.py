"""Django's entry: registers the sources that the environment names."""

import logging

from django.apps import AppConfig
from django.conf import settings

log = logging.getLogger("adkweb.sources")


class SessionsConfig(AppConfig):
    """The one application of adkweb."""

    name = "sessions_app"

    def import_models(self) -> None:
        """Loads the models: those of `models/`, and those that stand with what they do."""
        super().import_models()
        from .access import approval, roles, tokens  # noqa: F401
        from .privacy import retention  # noqa: F401

    def ready(self) -> None:
        """Names the sources; they are opened when first needed."""
        from .domain.errors import SourceError
        from .sources import registry

        for text in settings.SOURCES:
            try:
                registry.add(text)
            except SourceError as error:  # the others, and every command, go on
                log.error("ADKWEB_SOURCES: %s", error.message)
                registry.refuse(text, error.message)
