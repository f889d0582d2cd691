"""How large the project is: ``make size``. Lines of Python by package, of tests, and words of documentation by hand."""

import re
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST = {
    "hw + sim + boards": 47_900,
    "evidence": 6_300,
    "docs/studies": 4_600,
    "tests": 31_000,
    "words by hand": 33_500,
    "README": 900,
}
"""What these are to be at most; tests without evidence and torture, words by hand without what programs write."""

_RECORD = re.compile(r"<!-- (\w+) -->.*?<!-- end of \1 -->|<!-- [^>]*-->", re.DOTALL)
_WRITTEN_BY_PROGRAMS = ("docs/reference/areas/",)


def tracked(*patterns: str) -> list[Path]:
    """The project's files with such names."""
    text = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in text.splitlines() if (ROOT / name).exists()]


def lines() -> Counter[str]:
    """Lines of Python, by folder and package."""
    counts: Counter[str] = Counter()
    for path in tracked("*.py"):
        counts["/".join(path.relative_to(ROOT).parts[:3][:-1]) or "."] += len(path.read_text().splitlines())
    return counts


def words_by_hand() -> int:
    """Words of the documentation, without what programs write into it."""
    pages = [path for path in tracked("docs/*.md") if not str(path.relative_to(ROOT)).startswith(_WRITTEN_BY_PROGRAMS)]
    return sum(len(_RECORD.sub("", path.read_text()).split()) for path in [ROOT / "README.md", *pages])


def sums(found: Counter[str]) -> dict[str, int]:
    """What has a bound."""
    under = {
        name: sum(count for folder, count in found.items() if f"{folder}/".startswith(f"{name}/"))
        for name in ("hw", "sim", "boards", "tests", "tests/evidence", "tests/torture", "docs/studies")
    }
    return {
        "hw + sim + boards": under["hw"] + under["sim"] + under["boards"],
        "evidence": under["tests/evidence"],
        "docs/studies": under["docs/studies"],
        "tests": under["tests"] - under["tests/evidence"] - under["tests/torture"],
        "words by hand": words_by_hand(),
        "README": len((ROOT / "README.md").read_text().split()),
    }


def main() -> None:
    """Print all of it, and what is too large."""
    found = lines()
    for folder, count in sorted(found.items()):
        print(f"{folder:<28} {count:>7,}")
    for name, count in sums(found).items():
        print(f"{name:<28} {count:>7,}   at most {MOST[name]:,}{'' if count <= MOST[name] else ': too many'}")


if __name__ == "__main__":
    main()
