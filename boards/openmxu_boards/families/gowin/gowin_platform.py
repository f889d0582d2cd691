"""Amaranth's Gowin platform for the present tools."""

from amaranth.vendor import GowinPlatform


class Himbaechel:
    """Mixin for a :class:`~amaranth.vendor.GowinPlatform`: Amaranth 0.5 calls a nextpnr that no longer exists."""

    @property
    def chip(self) -> str:
        """Name of the device's tables; a device with memory in its package has the tables of the plain one."""
        family: str = self.family  # type: ignore[attr-defined]
        return family.replace("GW1NR-", "GW1N-").replace("GW2AR-", "GW2A-")

    @property
    def required_tools(self) -> list[str]:
        return ["yosys", "nextpnr-himbaechel-gowin", "gowin_pack"]

    @property
    def file_templates(self) -> dict[str, str]:
        """Amaranth's templates, with the netlist written after the script that may change it."""
        templates: dict[str, str] = dict(GowinPlatform._apicula_file_templates)
        script = templates["{{name}}.ys"].replace(" -json {{name}}.syn.json", "")
        templates["{{name}}.ys"] = script.rstrip() + "\n            write_json {{name}}.syn.json\n"
        return templates

    @property
    def command_templates(self) -> list[str]:
        """Amaranth's synthesis, then the present tools."""
        return [
            GowinPlatform._apicula_command_templates[0],
            """
            {{invoke_tool("nextpnr-himbaechel-gowin")}}
                {{quiet("--quiet")}}
                {{get_override("nextpnr_opts")|options}}
                --log {{name}}.tim
                --device {{platform.part}}
                --vopt family={{platform.chip}}
                --vopt cst={{name}}.cst
                --json {{name}}.syn.json
                --write {{name}}.pnr.json
            """,
            """
            {{invoke_tool("gowin_pack")}}
                -d {{platform.chip}}
                -o {{name}}.fs
                {{get_override("gowin_pack_opts")|options}}
                {{name}}.pnr.json
            """,
        ]
