"""Files that LibreOffice's command converts: by a stand-in for it, and by itself where it is installed."""

import io
import os
import shutil
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import docx
import pptx
import pytest

from context_engine.core.models import IngestSettings
from context_engine.ingest.loaders import load

ZIP = b"PK\x03\x04" + bytes(600)
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
SOFFICE = shutil.which("soffice") or shutil.which("libreoffice")
needs_libreoffice = pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")


@pytest.fixture
def command(tmp_path, monkeypatch):
    """Put a script in LibreOffice's place; `given`, `outdir` and `profile` are what it was called with."""

    def install(body):
        script = tmp_path / "bin" / "soffice"
        script.parent.mkdir(exist_ok=True)
        head = (
            f"#!{sys.executable}\nimport os, sys, time, pathlib, shutil, subprocess, resource\n"
            "given, outdir = sys.argv[-1], pathlib.Path(sys.argv[sys.argv.index('--outdir') + 1])\n"
            "profile = sys.argv[1].removeprefix('-env:UserInstallation=file://')\n"
        )
        script.write_text(head + textwrap.dedent(body))
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
        return script.parent

    return install


@pytest.fixture
def made(tmp_path, saved):
    document = docx.Document()
    document.add_heading("Purpose", 1)
    document.add_paragraph("Words of the nineties.")
    path = tmp_path / "made.docx"
    path.write_bytes(saved(document))
    return path


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


def ended(pid):
    """Whether a process ends within some seconds."""
    until = time.monotonic() + 10
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_without_libreoffice_one_line_names_the_way(refused, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert refused(OLE, "a.doc") == "is an old Word file: install LibreOffice, or save it as .docx"
    assert refused(OLE, "a.xls") == "is an old Excel file: install LibreOffice, or save it as .xlsx"
    assert refused(OLE, "A.PPT") == "is an old PowerPoint file: install LibreOffice, or save it as .pptx"
    assert refused(ZIP, "a.ods") == "is an OpenDocument spreadsheet: install LibreOffice, or save it as .xlsx"
    assert refused(ZIP, "a.odp") == "is an OpenDocument presentation: install LibreOffice, or save it as .pptx"


def test_what_comes_out_is_read_under_the_files_own_name(command, made, one):
    command(f"outdir.mkdir(); shutil.copy({str(made)!r}, outdir / 'given.docx')")
    loaded = one(OLE, "policy of 1997.doc")
    assert loaded.text == "# Purpose\n\nWords of the nineties."
    assert (loaded.path, loaded.stem) == ("policy of 1997.doc", "policy of 1997")


def test_an_old_word_file_that_does_not_become_docx_becomes_odt(command, one, tmp_path):
    empty, odt = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(empty, "w") as archive:
        archive.writestr("_rels/.rels", "<Relationships/>")
    names = "urn:oasis:names:tc:opendocument:xmlns"
    with zipfile.ZipFile(odt, "w") as archive:
        archive.writestr(
            "content.xml",
            f'<o:document-content xmlns:o="{names}:office:1.0" xmlns:t="{names}:text:1.0"><o:body><o:text>'
            "<t:p>Words of the nineties.</t:p></o:text></o:body></o:document-content>",
        )
    (tmp_path / "made.docx").write_bytes(empty.getvalue())
    (tmp_path / "made.odt").write_bytes(odt.getvalue())
    command(
        f"""
        form = sys.argv[sys.argv.index("--convert-to") + 1]
        outdir.mkdir(exist_ok=True)
        shutil.copy(f"{tmp_path}/made.{{form}}", outdir / f"given.{{form}}")
        """
    )
    assert one(OLE, "policy of 1997.doc").text == "Words of the nineties."


def test_the_profile_and_the_folder_are_private_and_gone_afterwards(command, made, one, tmp_path):
    note = tmp_path / "note"
    command(
        f"""
        settings = pathlib.Path(profile, "user", "registrymodifications.xcu").read_text()
        pathlib.Path({str(note)!r}).write_text(os.getcwd() + "\\n" + str("DisableMacrosExecution" in settings))
        assert profile.startswith(os.getcwd()) and given.startswith(os.getcwd()) and os.environ["HOME"] == os.getcwd()
        outdir.mkdir(); shutil.copy({str(made)!r}, outdir / "given.docx")
        """
    )
    assert one(OLE, "-a b;c.doc").path == "-a b;c.doc"
    folder, secured = note.read_text().splitlines()
    assert secured == "True"
    assert not Path(folder).exists()


def test_what_libreoffice_cannot_open(command, refused):
    command("sys.exit(1)")
    assert refused(OLE, "a.doc") == (
        "cannot be opened by LibreOffice: it is damaged, or has a password. Save it as .docx without one"
    )


def test_a_password_is_told_before_anything_is_started(command, refused):
    command("raise SystemExit('not to be called')")
    assert refused(OLE + "EncryptedPackage".encode("utf-16-le"), "a.xls") == "has a password: save it without one"


@pytest.mark.slow
def test_a_command_that_never_ends_is_ended_with_all_it_started(command, folder, tmp_path):
    note = tmp_path / "pids"
    command(
        f"""
        child = subprocess.Popen(["sleep", "60"])
        pathlib.Path({str(note)!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
        time.sleep(60)
        """
    )
    root = folder({"a.doc": OLE})
    (skipped,) = load(root / "a.doc", root, settings=IngestSettings(file_timeout_s=1.25))
    assert skipped.reason == "took LibreOffice more than 1 s: save it as .docx"  # 0.8 · 1.25 s
    assert all(ended(int(pid)) for pid in note.read_text().split())


@pytest.mark.slow
def test_it_ends_with_the_process_that_reads_even_if_that_is_killed(command, folder, tmp_path):
    note = tmp_path / "pids"
    command(
        f"""
        child = subprocess.Popen(["sleep", "60"])
        pathlib.Path({str(note)!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
        time.sleep(60)
        """
    )
    root = folder({"a.doc": OLE})
    code = (
        "import sys; from pathlib import Path; from context_engine.ingest.loaders import load; "
        "list(load(Path(sys.argv[1], 'a.doc'), Path(sys.argv[1])))"
    )
    reader = subprocess.Popen([sys.executable, "-c", code, str(root)])
    until = time.monotonic() + 20
    while not (note.exists() and len(note.read_text().split()) == 2) and time.monotonic() < until:
        time.sleep(0.02)
    reader.kill()
    reader.wait()
    assert all(ended(int(pid)) for pid in note.read_text().split())


@pytest.mark.slow
def test_the_memory_of_a_reader_does_not_bind_the_command(command, made, folder, tmp_path):
    note = tmp_path / "memory"
    command(
        f"""
        pathlib.Path({str(note)!r}).write_text(str(resource.getrlimit(resource.RLIMIT_AS)))
        outdir.mkdir(); shutil.copy({str(made)!r}, outdir / "given.docx")
        """
    )
    root = folder({"a.doc": OLE})
    code = (
        "import resource, sys; from pathlib import Path; from context_engine.ingest.loaders import load\n"
        "hard = resource.getrlimit(resource.RLIMIT_AS)[1]; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, hard))\n"
        "print(len(list(load(Path(sys.argv[1], 'a.doc'), Path(sys.argv[1])))), hard)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True)
    count, hard = done.stdout.split()
    assert (count, note.read_text()) == ("1", f"({hard}, {hard})")


@needs_libreoffice
@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "source"),
    [
        (".doc", "limit-breach-procedure.docx"),
        (".xls", "counterparty-limits.xlsx"),
        (".ods", "counterparty-limits.xlsx"),
    ],
)
def test_libreoffice_itself(one, read, shipped, tmp_path, suffix, source):
    (tmp_path / source).write_bytes(shipped(source))
    profile = (tmp_path / "profile").as_uri()
    command = [SOFFICE, f"-env:UserInstallation={profile}", "--headless", "--convert-to", suffix[1:], "--outdir"]
    subprocess.run([*command, str(tmp_path), str(tmp_path / source)], check=True, capture_output=True, timeout=120)
    found = read((tmp_path / source).with_suffix(suffix).read_bytes(), f"old{suffix}")
    text = "\n".join(one.text for one in found)
    if suffix == ".doc":
        assert "### 2.1 Who reports" in text
        assert "| above 5 % | Board Risk Committee | next meeting |" in text
    else:
        assert all(one.path == f"old{suffix}" for one in found)
        assert len(found) == len(read(shipped(source), source))


@needs_libreoffice
@pytest.mark.slow
def test_a_presentation_of_opendocument(read, saved, tmp_path):
    slides = pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "Limits", "The desk limit is USD 4 million."
    (tmp_path / "deck.pptx").write_bytes(saved(slides))
    profile = (tmp_path / "profile").as_uri()
    command = [SOFFICE, f"-env:UserInstallation={profile}", "--headless", "--convert-to", "odp", "--outdir"]
    subprocess.run([*command, str(tmp_path), str(tmp_path / "deck.pptx")], check=True, capture_output=True, timeout=120)
    [loaded] = read((tmp_path / "deck.odp").read_bytes(), "deck.odp")
    assert "Limits" in loaded.text and "The desk limit is USD 4 million." in loaded.text
