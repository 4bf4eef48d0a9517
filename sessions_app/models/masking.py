"""The rules that hide values: adkweb's own data."""

from typing import ClassVar

from django.db import models


class MaskRule(models.Model):
    """Hides values of the apps whose names match `apps` (`booking*`). The other fields are as in domain/masks.py."""

    apps = models.CharField(max_length=200)
    kind = models.CharField(max_length=10)
    pattern = models.CharField(max_length=200)
    ids = models.BooleanField(default=False)
    created = models.FloatField()
    created_by = models.CharField(max_length=150)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["apps", "kind", "pattern"], name="one_mask_rule")]
