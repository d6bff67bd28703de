"""`context-engine plugin`: check the Dify plugin, pack and sign it, print its settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import FAILURE, USAGE, with_debug
from context_engine.apps.cli.console import note, print_json, print_line, read_file, write_text
from context_engine.apps.cli.options import with_json
from context_engine.core.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from context_engine.apps.packaging import Packed, PluginFinding

_EXAMPLE: Final = "\b\nExample:\n  "
PACK: Final = """\b
Examples:
  context-engine plugin pack
  context-engine plugin pack --config config --manifests manifests --stage prod --sign key.pem
  context-engine plugin pack --with-wheels --platform manylinux_2_28_x86_64

\b
A key pair that Dify accepts (give the second file to its administrator):
  openssl genrsa -out key.pem 4096
  openssl rsa -in key.pem -RSAPublicKey_out -out key.public.pem
"""


@click.group()
def plugin() -> None:
    """Check, pack and set up the Dify plugin."""


@plugin.command("pack", epilog=PACK)
@click.option("--plugin-dir", default="dify_plugin", show_default=True, metavar="DIR", help="Folder of the plugin.")
@click.option("--out", "out_dir", default="dist", show_default=True, metavar="DIR", help="Folder to write to.")
@click.option("--config", metavar="DIR", help="Include the configuration in this folder.")
@click.option("--manifests", metavar="DIR", help="Include the manifests in this folder.")
@click.option("--stage", metavar="NAME", help="Include this stage's connections and dataset ids.")
@click.option("--with-wheels", is_flag=True, help="Include the wheels of all requirements: installing needs no index.")
@click.option("--platform", metavar="TAG", help="Platform of the wheels [default: manylinux_2_28_x86_64].")
@click.option("--python", metavar="X.Y", help="Python version of the wheels [default: 3.12, which Dify runs].")
@click.option("--include", multiple=True, metavar="PACKAGE", help="Include an installed package, e.g. your adapter.")
@click.option(
    "--extras",
    type=click.Choice(("documents", "none")),
    default="documents",
    show_default=True,
    help="Require the readers of Word, Excel, PowerPoint, PDF, OpenDocument and HTML; 28 MB more as wheels.",
)
@click.option("--audit", is_flag=True, help="Require the packages for an audit ledger in PostgreSQL.")
@click.option("--sign", "key", metavar="KEY", help="Sign with this RSA-4096 key (PEM).")
@with_debug
def pack_command(plugin_dir: str, out_dir: str, **options: Any) -> None:
    """Write the plugin and the engine into one .difypkg; equal input gives equal bytes."""
    from context_engine.apps.packaging.pack import BrokenPlugin, PackOptions, pack
    from context_engine.apps.packaging.requirements import DEFAULT_PLATFORM, WheelTarget

    platform, python, key = options["platform"], options["python"], options["key"]
    if not options["with_wheels"] and (platform or python):
        raise click.UsageError("--platform and --python need --with-wheels")
    if options["stage"] and not options["manifests"]:
        raise click.UsageError("--stage needs --manifests")
    target = WheelTarget(platform=platform or DEFAULT_PLATFORM, python=python or "3.12")
    extras = {"documents": options["extras"] == "documents", "audit": options["audit"]}
    pack_options = PackOptions(
        config=Path(options["config"]) if options["config"] else None,
        manifests=Path(options["manifests"]) if options["manifests"] else None,
        stage=options["stage"],
        wheels=target if options["with_wheels"] else None,
        include=options["include"],
        extras=tuple(name for name, wanted in extras.items() if wanted),
        key=read_file(Path(key), "--sign") if key else None,
    )
    try:
        packed = pack(Path(plugin_dir), Path(out_dir), pack_options, env=os.environ)
    except BrokenPlugin as error:
        _print_findings(error.findings)
        click.get_current_context().exit(USAGE)
    _print_packed(packed)


@plugin.command("check", epilog=_EXAMPLE + "context-engine plugin check dify_plugin --sdk-python .venv312/bin/python")
@click.argument("place", default="dify_plugin", metavar="[DIR|FILE.difypkg]")
@click.option("--sdk-python", metavar="PATH", help="Python 3.12 with Dify's SDK, which then loads the plugin too.")
@click.option("--marketplace", is_flag=True, help="Apply the rules of Dify's marketplace too.")
@with_json
@with_debug
def check_command(place: str, sdk_python: str | None, marketplace: bool, as_json: bool) -> int:
    """Check a plugin against all of Dify's rules; name file, key and rule of each violation (exit code 2)."""
    from context_engine.apps.packaging import check
    from context_engine.apps.packaging.files import size_line

    python = Path(sdk_python).absolute() if sdk_python else None
    result = check(Path(place), sdk_python=python, marketplace=marketplace)
    if as_json:
        run = result.sdk.to_dict() if result.sdk else {"status": "not run"}
        findings = [finding.to_dict() for finding in result.findings]
        print_json({"ok": result.ok, "findings": findings, "sdk": run})
    else:
        _print_findings(result.findings)
        print_line(f"{counted(len(result.files), 'file')}, {size_line(result.files)}")
        if result.sdk is None:
            print_line("load by the SDK: not run (--sdk-python PATH)", "dim")
        elif result.sdk.problem is None:
            parts = {kind: names for kind, names in result.sdk.to_dict().items() if isinstance(names, list) and names}
            loaded = "; ".join(f"{kind} {', '.join(names)}" for kind, names in parts.items())
            print_line(f"load by the SDK {result.sdk.version}: passed ({loaded})", "green")
        if result.ok:
            print_line("no rule is broken", "green")
    return 0 if result.ok else USAGE


@plugin.command("settings", epilog=_EXAMPLE + "context-engine plugin settings --stage prod --base64")
@click.option("--config-dir", metavar="DIR", help="Folder with config/ and manifests/.")
@click.option("--stage", metavar="NAME", help="Use this stage's connections and dataset ids.")
@click.option("--base64", "as_base64", is_flag=True, help="Print the line as base64.")
@with_debug
def settings_command(config_dir: str | None, stage: str | None, as_base64: bool) -> None:
    """Print domains, connections and settings as one line for the plugin's field 'Domains'.

    Secrets remain references like ${NAME}, which the plugin resolves.
    """
    from context_engine.apps.dify.settings_line import write_line
    from context_engine.apps.packaging.bundle import read_bundle, settings_line
    from context_engine.settings import find_config

    bundle = read_bundle(find_config(config_dir, env=os.environ, cwd=Path.cwd()), env=os.environ, stage=stage)
    for key, path in bundle.local_files().items():
        note(f"{key}: {path} must exist where the plugin runs; or paste the certificate into the plugin's form instead")
    write_text(write_line(settings_line(bundle), as_base64=as_base64))


@plugin.command("verify", epilog=_EXAMPLE + "context-engine plugin verify dist/x.difypkg --key key.public.pem")
@click.argument("package", metavar="FILE.difypkg")
@click.option("--key", required=True, metavar="KEY", help="The public or the private key (PEM).")
@with_debug
def verify_command(package: str, key: str) -> None:
    """Check a package's signature as Dify does; exit code 1 if it is invalid."""
    from context_engine.apps.packaging.sign import BadSignature, verify

    try:
        signed = verify(read_file(Path(package), "FILE"), read_file(Path(key), "--key"))
    except BadSignature as error:
        print_line(f"not verified: {error}", "red")
        click.get_current_context().exit(FAILURE)
    print_line(f"verified: signed {signed:%Y-%m-%d %H:%M:%S} UTC", "green")


def _print_packed(packed: Packed) -> None:
    from context_engine.apps.packaging.files import size_line

    print_line(str(packed.path), "bold")
    print_line(f"{counted(len(packed.files), 'file')}, {size_line(packed.files)}")
    print_line(packed.identifier, "dim")
    for notice in packed.notices:
        note(notice.message, style="yellow")
    if not packed.signed:
        note("not signed: Dify installs it only with FORCE_VERIFYING_SIGNATURE=false; sign it with --sign KEY")


def _print_findings(findings: Iterable[PluginFinding]) -> None:
    for finding in findings:
        print_line(str(finding), "red")
