"""The admin's theme carries the product's name: it would otherwise outrank ``site_header``.

Names the active theme only where it still has the package's own title; a title that somebody chose
stays. Nothing to take back: the title is a setting of the theme, editable in the admin.
"""

from __future__ import annotations

from django.db import migrations

TITLE = "contextgraph"
PACKAGE_TITLES = ("", "Django administration")


def name_the_theme(apps, _schema_editor):
    themes = apps.get_model("admin_interface", "Theme").objects
    if not themes.exists():
        themes.create(name=TITLE, title=TITLE, active=True)
    themes.filter(title__in=PACKAGE_TITLES).update(title=TITLE)


class Migration(migrations.Migration):
    dependencies = [
        ("contextgraph", "0001_intake"),
        ("admin_interface", "0032_alter_theme_defaults"),
    ]

    operations = [migrations.RunPython(name_the_theme, migrations.RunPython.noop, elidable=True)]
