"""What a person can configure."""

from homing.config.settings import Retention, SettingLine, Settings, load_settings

__all__ = ["Retention", "SettingLine", "Settings", "load_settings"]
