// SPDX-License-Identifier: Apache-2.0

package main

import "encoding/json"

// Scalars; each is tried as a value, in a list, as a key, and in quotes.
var scalars = []string{
	"y", "Y", "yes", "Yes", "YES", "yEs", "n", "N", "no", "No", "NO", "nO",
	"true", "True", "TRUE", "tRue", "false", "False", "FALSE", "on", "On", "ON", "oN", "off", "Off", "OFF",
	"t", "f", "o", "null", "Null", "NULL", "nULL", "~", "~~", "nil", "none",
	"0", "-0", "+0", "00", "1", "+1", "-1", "--1", "+-1", "007", "0777", "08", "09.5", "-010", "+010", "0o17", "0O17", "0o8", "-0o17",
	"0x1F", "0X1f", "0x", "0xg", "-0x10", "+0x10", "0x_ff", "0b101", "0B101", "0b2", "-0b11", "+0b11", "0b", "0b-101", "0b+101",
	"-0b-1", "0x-5", "1_000", "1__0", "_1", "1_", "0_7", "1_000.5", "_", "1,000",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
	"18446744073709551615", "18446744073709551616", "+9223372036854775808", "0xffffffffffffffff", "0x10000000000000000",
	"0b1111111111111111111111111111111111111111111111111111111111111111", "123456789012345678901234567890",
	"1.0", "1.", ".5", "-.5", "+.5", "1e3", "1E3", "1e+3", "1e-3", "1.5e3", "1.e3", ".e3", ".", "..", "-", "+", "-.", "+.", "e3",
	"1e", "1e+", ".5e", ".5_5", "._5", ".5_", ".5e1_0", ".5__5", "1e999", "-1e999", ".5e999", "1e-999", "1.7976931348623157e308",
	"1e6", "1234567.0", "123456.0", "0.00001", "0.0001", "1e20", "1e21", "1e22", "100000000000000000000.0", "3.4028236e38", "1e40", "0.1", "16777217.0", "1.1",
	".inf", ".Inf", ".INF", "+.inf", "-.inf", "-.Inf", ".iNf", ".nan", ".NaN", ".NAN", ".Nan", "inf", "nan", "Infinity", "NaN",
	"1:30", "190:20:30", "190:20:30.15", "12:30:45", "2001-12-14", "2001-1-2", "2001-13-14", "2001-02-30",
	"2001-12-14T21:59:43Z", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43.10", "2001-12-14 21:59:43.10 -5", "2001-12-15T2:59:43.1Z",
	"2001-12-14T", "20011214", "1.2.3", "1.35.0", "10.0.0.1", "v1", "0x1p4", "0x1.8", "=", "<<x", "a", "abc def", "a:b", "a#b", "-a", "?a", ":a",
	"1Gi", "100m", "0.5", "1e3Gi", "é", "日本", "\U0001F600", "!", "x y z", "null_", "~a", "nully", "0.", "0e0", "-0.0", "0.0", "-0e1",
}

var taggedScalars = []string{
	"!!str 12", "!!str yes", "!!str", "!!str ~", "!!int 12", "!!int \"12\"", "!!int 1.5", "!!int abc", "!!int 0x10", "!!int", "!!float 1", "!!float 1.5", "!!float x",
	"!!float \"3\"", "!!float 18446744073709551615", "!!float .inf", "!!bool yes", "!!bool \"true\"", "!!bool 1", "!!bool maybe", "!!null ~", "!!null null", "!!null x", "!!null ''",
	"!!null", "!!binary aGVsbG8=", "!!binary \"aGVs\\nbG8=\"", "!!binary /w==", "!!binary aGVsbG8", "!!binary '*'", "!!binary ''", "!!binary gIGC",
	"!!timestamp 2001-12-14", "!!timestamp 2001-12-14t21:59:43.10-05:00", "!!timestamp x", "!!timestamp 12", "!!timestamp \"2001-12-14\"",
	"!foo 12", "!foo bar", "!foo", "! 12", "! \"12\"", "! yes", "! \"~\"", "!<tag:yaml.org,2002:str> 12", "!<tag:yaml.org,2002:int> 12", "!!foo 12", "!!merge <<", "!!seq [1]", "!!map {a: 1}",
	"!!set {a, b}", "!!omap [a: 1]", "!!str [1]", "!!int {a: 1}", "!!float 0x10", "!!float 1e999", "!!int 1e3", "!!int 2001-12-14", "!!bool null", "!!str 2001-12-14",
}

var documents = []string{
	"", " ", "\n\n", "# only a comment\n", "---\n", "---\n...\n", "--- \n# c\n", "null\n", "~", "a", "\"a\"", "12\n", "[]", "{}",
	"a: 1\nb: 2\n", "a:\n  b:\n    c: d\n", "- a\n- b\n- - c\n  - d\n", "a:\n- b\n- c\n", "a:\n  - b\n  - c\n", "a: {b: c, d: [e, f]}\n",
	"a: b: c\n", "a:\n\tb: c\n", "\ta: b\n", "a: \tb\n", "a:\t1\n", "- \ta\n", "a: 'it''s'\n", "a: \"x\\ty\\u00e9\\U0001F600\\x41\\0\\e\"\n", "a: \"\\ud83d\\ude00\"\n", "a: \"\\ud800\"\n", "a: \"\\q\"\n",
	"a: |\n  one\n  two\n", "a: |-\n  one\n  two\n", "a: |+\n  one\n  two\n\n\nb: c\n", "a: |2\n    two\n  one\n", "a: |2-\n   x\n", "a: >\n  one\n  two\n\n  three\n", "a: >-\n  one\n    more\n  two\n",
	"a: >+\n  x\n\n", "a: |\n\n  lead\n", "a: |\n", "a: |+\n\n", "a: |1\n b\n", "a: |0\n b\n", "a: |x\n b\n", "- |\n a\n- >\n b\n", "a: | # comment\n  text\n", "a: >\n  one\n  \ttab\n  two\n", "a: |\n  one\n two\n",
	"a: |\r\n  one\r\n  two\r\n", "a: 1\r\nb: 2\r\n", "a: 1\rb: 2\r", "\ufeffa: 1\n", "\ufeff\n# c\na: 1", "a: \ufeffb\n", "a: b\u2028c: d\n", "a: \u0085b\n",
	"a: one\n  two\n  three\n", "a: \"one\n  two\n\n  three\"\n", "a: 'one\n  two'\n", "a: \"one\\\n  two\"\n", "a: b # comment\n", "a: b#c\n", "a: b\n# c\n", "a:#b\n", "'a': 1\n\"b\": 2\n",
	"&x a: 1\nb: *x\n", "a: &x 1\nb: *x\n", "a: &x {b: 1}\nc: *x\n", "a: &x [1, 2]\nb: [*x, *x]\n", "a: *missing\n", "a: &x [*x]\n", "&x {a: *x}\n", "a: &x 1\nb: &x 2\nc: *x\n", "*x : 1\n", "a: &x k\n*x : v\n",
	"a: &x {y: z}\n*x : v\n", "base: &b {a: 1, b: 2}\nd:\n  <<: *b\n  b: 3\n", "base: &b {a: 1, b: 2}\nd:\n  b: 3\n  <<: *b\n", "d:\n  <<: {a: 1}\n", "x: &x {a: 1}\ny: &y {a: 2, b: 2}\nd:\n  <<: [*x, *y]\n  c: 3\n",
	"x: &x {a: 1}\nd: {<<: *x, <<: {b: 1}}\n", "d: {<<: 1}\n", "d: {<<: [1]}\n", "d: {<<: []}\n", "d: {<<: }\n", "x: &x [1]\nd: {<<: *x}\n", "d: {\"<<\": 1}\n", "d: {'<<': {a: 1}}\n", "d: {!!merge <<: {a: 1}}\n", "d: {!!str <<: {a: 1}}\n",
	"a: <<\n", "- <<\n", "x: &x {a: {p: 1}}\nd:\n  <<: *x\n  a: {q: 2}\n", "x: &x {<<: {a: 1}, b: 2}\nd: {<<: *x}\n", "d: {<<: [{a: 1}, {a: 2, b: 2}]}\n", "x: &x {<<: *x}\n", "x: &x {a: &y {<<: *x}}\n", "d: {<<: &z {a: 1}, e: *z}\n",
	"1: a\n", "1.5: a\n", "true: a\n", "yes: a\n", "~: a\n", "null: a\n", ": a\n", "? a\n: b\n", "? [a]\n: b\n", "? {a: b}\n: c\n", "? a\n", "0x10: a\n", "18446744073709551615: a\n", "9223372036854775807: a\n", "1e6: a\n", "123456.5: a\n", ".inf: a\n", "-.inf: a\n", ".nan: a\n", "2001-12-14: a\n", "!!binary aGk=: a\n", "!!str 1: a\n", "\"1\": a\n",
	"1234567.5: a\n", "0.1: a\n", "1e40: a\n", "1e-5: a\n", "0.0001: a\n", "16777217.5: a\n", "100000.0: a\n", "1e5: a\n", "[a, b,]", "{a: 1,}", "[a b, c d]", "[a: 1, b: 2]", "{a, b: c}", "[, a]", "{a: [}", "[a", "{a: b", "]", "}", "\"abc", "'abc", "a: [b, c\nd: e\n", "a: b\n c: d\n", "a:\n  b: 1\n c: 2\n", "- a\nb: c\n", "a: 1\n- b\n", "@a", "`a", "%a", "a: %b", "a: @b", "a: !<x b", "&", "*", "!", "a: &\n", "a: *\n",
	"--- a\n", "--- # c\na: 1\n", "%YAML 1.1\n---\na: 1\n", "%YAML 1.2\n---\na: 1\n", "%YAML 2.0\n---\na\n", "%TAG ! tag:x,2000:\n---\n!a b\n", "%FOO bar\n---\na\n", "a\n...\n", "a: {x: 1\n  y: 2}\n", "{\"a\":1,\"b\":[true,null,\"x\"]}", "{\"a\": 1}\n", "{\"a\":\t1}", "{a:1}", "{\"a\":1}", "{a: \"x\"y}", "[\"a\":1]", "a: ['b', \"c\", d]", "a: -1\nb: - 1\n", "a: - b\n", "- - - a\n", "- a: 1\n  b: 2\n- c: 3\n", "-\n  a: 1\n-\n- b\n", "a:\n\n\n  b: 1\n", "a: b\n\n\n", "a: \n", "a:", "a: ''\n", "a: \"\"\n", "a: ~\n", "? \n: a\n", "a: ? b\n", "a: ?b\n", "a: b:c\n", "a: b,c\n", "a: [b,c]\n", "a: http://x.y/z\n", "[http://x.y/z]", "{a: http://x.y/z}", "a: x{y}z\n", "[x{y]", "a: x[y]\n", "a: - - b\n", "\x01", "a: \x7f\n", "a: \"\x01\"\n", "a: \u00a0b\n", "key with spaces: v\n", "'quoted key': v\n", "a:  b  \n", "a: 'b' c\n", "a: \"b\" # c\n", "a: [1, 2] # c\n", "a: |\n  # not a comment\n  x\n", "a: b\n---\nc: d\n", "a: b\n...\n---\nc: d\n", "a: {\n  b: 1,\n  c: 2\n}\n", "a: [\n1,\n2\n]\n", "a: {b: 1}\nc: {}\nd: []\n", "a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "1: a\n\"1\": a\n",
	"a: >2\n   x\n  y\n", "a: |-2\n  x\n", "a: |+2\n  x\n\n", "a: >-\n\n  x\n\n  y\n\n", "a: |\n  x\n  \n", "a: |-\n  x\n   \n", "a: \"a b   \n   c\"\n", "a: 'a\n\n\n b'\n", "a: a\n\n\n b\n", "- !!str\n- !!null\n- !!int 3\n", "a: !!str\n", "a: &x\nb: *x\n", "a: &x !!str 1\nb: *x\n", "a: !!str &x 1\nb: *x\n", "- &a a\n- &b-c b\n- *b-c\n", "- &a: b\n- *a:\n", "a: *x\nb: &x 1\n", "a: 'x\\ny'\n", "a: \"\\/\\\"\\\\\\a\\b\\t\\n\\v\\f\\r\\e\\ \\N\\_\\L\\P\"\n", "a: \"\\x4\"\n", "a: \"\\u12\"\n", "a: \"\\U00110000\"\n",
}

func readCases() []string {
	var out []string
	for _, s := range scalars {
		out = append(out, "v: "+s+"\n", "- "+s+"\n", s+": v\n", "v: \""+s+"\"\n", "v: '"+s+"'\n", "["+s+", x]\n")
	}
	for _, s := range taggedScalars {
		out = append(out, "v: "+s+"\n", "- "+s+"\n")
	}
	return append(out, documents...)
}

func writeCases() []string {
	values := append([]string{}, scalars...)
	values = append(values, "", " ", "a ", " a", "a: b", "a #b", "a#b", "# a", "- a", "-", "--", "---", "--- a", "...", "?", "? a", ":", "a:", "&a", "*a", "!a", "|", ">", "|-", "%a", "@a", "`a", "\"a\"", "'a'", "a'b", "a\"b", "it's", "{a}", "[a]", "a{", "a,b", "{", "}", ",", "a\\b",
		"a\nb", "a\nb\n", "a\nb\n\n", "\na", "\n", "\n\n", " a\nb", "a\n b", "a \nb", "a\n\nb", "a\n", "\ta\nb", "a\tb", "\t", "a\r\nb", "a\rb", "a\n\tb", "tab\there\nand", "a\u2028b", "a\u0085b", "\u0000", "a\u0001b", "\u007f", "\ufeff", "a\ufeffb", "\u00a0", "\U0001F600", "a\U0001F600\nb", "é", "é\nü", "a\nb ", "a\nb\t", "# a\n# b", "- a\n- b\n", "a: b\nc: d\n", "---\na\n", "...\n", "a\n...\n", "a\n---\n", "\n a", "\n\n a\n", "a\n\n", "  \n", " \n", "x\n ", "x\n\n\n",
		"a long line with many words that goes on well past the eightieth column of the page and then some more words", "averylongwordwithoutanyspacesthatgoesonwellpasttheeightiethcolumnofthepageandthensomemorewithoutanyspaces",
		"\"a long line with many words in quotes that goes on well past the eightieth column of the page and more words", "a long line: with many words that goes on well past the eightieth column of the page and then some more words",
		"a long line\nwith many words that goes on well past the eightieth column of the page and then some more words again\n")
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
	var out []string
	for _, v := range values {
		q := quote(v)
		out = append(out, q, "{\"k\":"+q+"}", "["+q+"]", "{"+q+":1}", "{\"a\":{\"b\":["+q+"]}}")
	}
	for _, n := range []string{"0", "-0", "1", "-1", "1.5", "1e3", "1e-7", "1e21", "1e20", "123456789.5", "9223372036854775807", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "0.1", "100000", "1000000", "1000000.5", "12345678901234567890123", "1.0", "5e-324", "1.7976931348623157e308", "true", "false", "null"} {
		out = append(out, n, "{\"k\":"+n+"}", "["+n+"]")
	}
	return append(out, "{}", "[]", "{\"a\":{}}", "{\"a\":[]}", "[[]]", "[{}]", "[[1,2],[3]]", "[[[1]]]", "[{\"a\":1,\"b\":2},{\"c\":3}]", "[{\"a\":[1,2]},3]", "{\"a\":[{\"b\":[{\"c\":1}]}]}", "{\"a\":[[1],[2,[3]]]}", "{\"b\":1,\"a\":2,\"c\":{\"z\":1,\"y\":2}}",
		"{\"a10\":1,\"a9\":1,\"a1\":1,\"A\":1,\"b\":1,\"_\":1,\"0\":1,\"10\":1,\"9\":1,\"a-b\":1,\"a.b\":1,\"a/b\":1,\"ab\":1,\"a01\":1,\"a001\":1,\"a1b\":1,\"é\":1,\"z\":1,\"1\":1,\"01\":1,\"true\":1,\"a b\":1,\"\":1}",
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"creationTimestamp\":\"2024-01-01T00:00:00Z\",\"labels\":{\"app.kubernetes.io/name\":\"x\",\"a\":\"1\",\"b\":\"true\"},\"name\":\"n\"},\"data\":{\"f\":\"line one\\nline two\\n\",\"g\":\"{\\\"a\\\": 1}\\n\"}}",
		"{\"k\":{\"a very long key indeed that has more than one hundred and twenty eight characters in it so that it cannot be a simple key for the emitter at all, really\":1}}")
}
