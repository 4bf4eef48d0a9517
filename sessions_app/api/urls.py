"""The addresses for programs: those below `/api/`, and ADK's own."""

from django.urls import include, path

from . import probes
from .adk import routes
from .routes import urls

urlpatterns = [
    path("api/", include((urls(), "api"))),
    *probes.addresses(),
    *routes.addresses(),
]
