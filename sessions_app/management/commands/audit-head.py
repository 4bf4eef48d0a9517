"""`adkweb audit-head`: prints the newest head of the audit, to be published or kept elsewhere."""  # noqa: N999

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from ...access.audit import heads


class Command(BaseCommand):
    """Prints a line: the day, the number and the digest of the newest row."""

    help = "Print the newest head of the audit: its day, number and digest. Keep the line elsewhere."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        """Prints the line. If nothing is recorded yet, it says so and fails."""
        try:
            head = heads.newest()
        except DatabaseError as error:
            raise CommandError(f"adkweb's own database cannot be read: {str(error).strip()}") from error
        if head is None:
            raise CommandError("Nothing recorded yet.")
        self.stdout.write(str(head))
