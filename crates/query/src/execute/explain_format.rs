//! Plans as JSON, YAML and XML: a tree by the indentation of the lines of EXPLAIN, with PostgreSQL's names.

use std::fmt::Write;

use crate::statement::ExplainFormat;

/// An operator and its inputs.
#[derive(Debug, Default)]
struct Node<'l> {
    /// The operator, and what stands behind the colon.
    kind: &'l str,
    detail: Option<&'l str>,
    inputs: Vec<Node<'l>>,
}

/// A plan with the lines about the whole statement.
struct Document<'l> {
    plan: Node<'l>,
    /// Names and values, such as `Execution Time`.
    facts: Vec<(&'l str, &'l str)>,
}

/// One document for the lines of an EXPLAIN.
pub(super) fn document(lines: &[String], format: ExplainFormat) -> String {
    let document = Document::of(lines);
    let mut out = String::new();
    match format {
        ExplainFormat::Text => out = lines.join("\n"),
        ExplainFormat::Json => document.json(&mut out),
        ExplainFormat::Yaml => document.yaml(&mut out),
        ExplainFormat::Xml => document.xml(&mut out),
    }
    out
}

impl<'l> Document<'l> {
    fn of(lines: &'l [String]) -> Document<'l> {
        let mut document = Document { plan: Node::default(), facts: Vec::new() };
        // Open nodes with their indentation; the first one has the top level as its inputs.
        let mut open: Vec<(usize, Node<'l>)> = vec![(0, Node::default())];
        let close = |open: &mut Vec<(usize, Node<'l>)>| {
            if let (Some((_, node)), Some((_, above))) = (open.pop(), open.last_mut()) {
                above.inputs.push(node);
            }
        };
        for line in lines {
            let text = line.trim_start();
            let indent = line.len() - text.len();
            let (kind, detail) = text.split_once(": ").map_or((text, None), |(kind, detail)| (kind, Some(detail)));
            if let (0, true, Some(detail)) = (indent, is_fact(kind), detail) {
                document.facts.push((kind, detail));
                continue;
            }
            while open.len() > 1 && open.last().is_some_and(|(other, _)| *other > indent) {
                close(&mut open);
            }
            open.push((indent + 1, Node { kind, detail, inputs: Vec::new() }));
        }
        while open.len() > 1 {
            close(&mut open);
        }
        let mut top = open.pop().map(|(_, node)| node.inputs).unwrap_or_default();
        document.plan = match top.len() {
            1 => top.remove(0),
            _ => Node { kind: "Result", detail: None, inputs: top },
        };
        document
    }

    fn json(&self, out: &mut String) {
        out.push_str("[\n  {\n    \"Plan\": ");
        self.plan.json(4, out);
        for (name, value) in &self.facts {
            out.push_str(",\n    ");
            quoted(name, out);
            out.push_str(": ");
            match number(value) {
                Some(number) => out.push_str(number),
                None => quoted(value, out),
            }
        }
        out.push_str("\n  }\n]");
    }

    fn yaml(&self, out: &mut String) {
        out.push_str("- Plan:");
        self.plan.yaml(4, out);
        for (name, value) in &self.facts {
            let _ = write!(out, "\n  {name}: ");
            match number(value) {
                Some(number) => out.push_str(number),
                None => quoted(value, out),
            }
        }
    }

    fn xml(&self, out: &mut String) {
        out.push_str("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n");
        self.plan.xml(4, out);
        for (name, value) in &self.facts {
            let tag = name.replace(' ', "-");
            let _ = writeln!(out, "    <{tag}>{}</{tag}>", escaped(number(value).unwrap_or(value)));
        }
        out.push_str("  </Query>\n</explain>");
    }
}

impl Node<'_> {
    fn json(&self, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent + 2);
        let _ = write!(out, "{{\n{pad}\"Node Type\": ");
        quoted(self.kind, out);
        if let Some(detail) = self.detail {
            let _ = write!(out, ",\n{pad}\"Detail\": ");
            quoted(detail, out);
        }
        if !self.inputs.is_empty() {
            let _ = write!(out, ",\n{pad}\"Plans\": [");
            for (at, input) in self.inputs.iter().enumerate() {
                let _ = write!(out, "{}\n{pad}  ", if at == 0 { "" } else { "," });
                input.json(indent + 4, out);
            }
            let _ = write!(out, "\n{pad}]");
        }
        let _ = write!(out, "\n{}}}", " ".repeat(indent));
    }

    fn yaml(&self, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        let _ = write!(out, "\n{pad}Node Type: ");
        self.yaml_rest(&pad, indent, out);
    }

    fn yaml_rest(&self, pad: &str, indent: usize, out: &mut String) {
        quoted(self.kind, out);
        if let Some(detail) = self.detail {
            let _ = write!(out, "\n{pad}Detail: ");
            quoted(detail, out);
        }
        if !self.inputs.is_empty() {
            let _ = write!(out, "\n{pad}Plans:");
            for input in &self.inputs {
                let _ = write!(out, "\n{pad}  - Node Type: ");
                input.yaml_rest(&" ".repeat(indent + 4), indent + 4, out);
            }
        }
    }

    fn xml(&self, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        let _ = writeln!(out, "{pad}<Plan>\n{pad}  <Node-Type>{}</Node-Type>", escaped(self.kind));
        if let Some(detail) = self.detail {
            let _ = writeln!(out, "{pad}  <Detail>{}</Detail>", escaped(detail));
        }
        if !self.inputs.is_empty() {
            let _ = writeln!(out, "{pad}  <Plans>");
            self.inputs.iter().for_each(|input| input.xml(indent + 4, out));
            let _ = writeln!(out, "{pad}  </Plans>");
        }
        let _ = writeln!(out, "{pad}</Plan>");
    }
}

/// Whether a line of the top level says something about the whole statement.
fn is_fact(name: &str) -> bool {
    matches!(name, "Planning Time" | "Execution Time" | "Rows" | "Not on the row executor")
}

/// The number at the start of a value such as `0.2 ms`.
fn number(value: &str) -> Option<&str> {
    let first = value.strip_suffix(" ms").unwrap_or(value);
    first.parse::<f64>().ok().filter(|number| number.is_finite()).map(|_| first)
}

/// A string of JSON, which is one of YAML too.
fn quoted(text: &str, out: &mut String) {
    out.push('"');
    for one in text.chars() {
        match one {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            one if u32::from(one) < 0x20 => _ = write!(out, "\\u{:04x}", u32::from(one)),
            one => out.push(one),
        }
    }
    out.push('"');
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_tree_by_their_indentation() {
        let lines =
            ["Sort: a < 1", "  Join", "    Scan \"t\"", "    Scan: u", "Execution Time: 0.25 ms"].map(String::from);
        assert_eq!(
            document(&lines, ExplainFormat::Json),
            r#"[
  {
    "Plan": {
      "Node Type": "Sort",
      "Detail": "a < 1",
      "Plans": [
        {
          "Node Type": "Join",
          "Plans": [
            {
              "Node Type": "Scan \"t\""
            },
            {
              "Node Type": "Scan",
              "Detail": "u"
            }
          ]
        }
      ]
    },
    "Execution Time": 0.25
  }
]"#
        );
        assert_eq!(
            document(&lines, ExplainFormat::Yaml),
            r#"- Plan:
    Node Type: "Sort"
    Detail: "a < 1"
    Plans:
      - Node Type: "Join"
        Plans:
          - Node Type: "Scan \"t\""
          - Node Type: "Scan"
            Detail: "u"
  Execution Time: 0.25"#
        );
        let xml = document(&lines, ExplainFormat::Xml);
        assert!(
            xml.contains("<Detail>a &lt; 1</Detail>") && xml.contains("<Execution-Time>0.25</Execution-Time>"),
            "{xml}"
        );
    }
}
