"""Office files whose parts have unusual names."""

import io
import zipfile

import docx
import openpyxl


def renamed(data, new_name, mentioned=""):
    """An archive with other names of its parts; `mentioned` is replaced inside the parts too."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            part = source.read(name)
            part = part.replace(mentioned.encode(), new_name(mentioned).encode()) if mentioned else part
            target.writestr(new_name(name), part)
    return out.getvalue()


def test_a_workbook_whose_parts_are_named_with_backslashes_is_read(one, saved):
    book = openpyxl.Workbook()
    book.active.append(["Desk", "Limit"])
    book.active.append(["Rates", 25])
    data = renamed(saved(book), lambda name: name.replace("/", "\\"))
    assert one(data, "a.xlsx").text == "Rates\nDesk: Rates\nLimit: 25"


def test_the_types_of_the_parts_tell_the_format(one, saved):
    document = docx.Document()
    document.add_paragraph("Cash costs 5 USD.")
    main = "word/document.xml"
    data = renamed(saved(document), lambda name: name.replace(main, "word/text7.xml"), main)
    assert one(data, "a.docx").text == "Cash costs 5 USD."


def test_the_name_of_a_removed_module_and_an_empty_hidden_sheet_are_not_reported(one, saved, zipped):
    book = openpyxl.Workbook()
    book.active.append(["Cash costs 5 USD."])
    book.create_sheet("Spare").sheet_state = "hidden"
    module = b'<sheet name="Module1" sheetId="9" state="veryHidden" r:id="" '
    module += b'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"/></sheets>'
    data = zipped(saved(book), {"xl/workbook.xml": lambda xml: xml.replace(b"</sheets>", module)})
    loaded = one(data, "a.xlsx")
    assert "Cash costs 5 USD." in loaded.text
    assert loaded.warnings == ()
