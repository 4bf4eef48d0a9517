"""Every address of programs: ours below `/api/`, and ADK's own at theirs."""

from django.urls import include, path

from .adk import routes
from .routes import urls

urlpatterns = [
    path("api/", include((urls(), "api"))),
    *routes.addresses(),
]
