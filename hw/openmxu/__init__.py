"""An open bf16 systolic matrix unit in Amaranth, and what turns it into files and figures."""
