"""Lines of comma-separated values."""


def split(line, separator=","):
    """The fields; quoted fields may hold the separator, and doubled quotes for one."""
    fields = []
    field = ""
    quoted = False
    index = 0
    while index < len(line):
        letter = line[index]
        if quoted:
            if letter == '"':
                if line[index + 1 : index + 2] == '"':
                    field += '"'
                    index += 1
                else:
                    quoted = False
            else:
                field += letter
        elif letter == '"' and not field:
            quoted = True
        elif letter == separator:
            fields.append(field)
            field = ""
        else:
            field += letter
        index += 1
    fields.append(field)
    return fields


def join(fields, separator=","):
    out = []
    for field in fields:
        if separator in field or '"' in field:
            field = '"' + field.replace('"', '""') + '"'
        out.append(field)
    return separator.join(out)
