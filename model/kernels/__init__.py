"""The few fused pieces that decide speed: a reference of each, and a faster one."""
