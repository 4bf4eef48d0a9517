"""Django's entry: registers the sources that the environment names."""

import logging

from django.apps import AppConfig
from django.conf import settings
from django.utils import translation

log = logging.getLogger("adkweb.sources")


class SessionsConfig(AppConfig):
    """The one application of adkweb."""

    name = "sessions_app"

    def import_models(self) -> None:
        """Loads the models: those of `models/`, and those in the modules of their subjects."""
        super().import_models()
        from .access import approval, masking, roles, tokens  # noqa: F401
        from .privacy import retention  # noqa: F401
        from .search.saved import watching  # noqa: F401

    def ready(self) -> None:
        """Translates the messages of domain/, and registers the sources; they are opened when first needed."""
        from .domain.errors import SourceError
        from .domain.translation import use
        from .sources import registry

        use(translation)
        for text in settings.SOURCES:
            try:
                registry.add(text)
            except SourceError as error:  # the others, and every command, continue
                log.error("ADKWEB_SOURCES: %s", error.message)
                registry.refuse(text, error.message)
