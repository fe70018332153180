//! Files that pages load, in the binary. Their addresses change with their content, so that browsers may keep them for good.

use std::sync::LazyLock;

/// A file.
pub struct Asset {
    /// Where it is served: with a mark of its content in it.
    pub path: String,
    pub kind: &'static str,
    pub body: &'static [u8],
}

/// All of them. uPlot's licence is in `assets/uPlot.LICENSE`.
pub struct Assets {
    pub style: Asset,
    pub script: Asset,
    pub plot_style: Asset,
    pub plot_script: Asset,
    pub icon: Asset,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: asset("dashboard", "css", include_bytes!("../assets/dashboard.css")),
    script: asset("dashboard", "js", include_bytes!("../assets/dashboard.js")),
    plot_style: asset("uplot", "css", include_bytes!("../assets/uPlot.min.css")),
    plot_script: asset("uplot", "js", include_bytes!("../assets/uPlot.iife.min.js")),
    icon: asset("icon", "svg", include_bytes!("../assets/icon.svg")),
});

/// All of them.
pub fn assets() -> &'static Assets {
    &ASSETS
}

/// The one that is served at an address.
pub fn find(path: &str) -> Option<&'static Asset> {
    let all = assets();
    [&all.style, &all.script, &all.plot_style, &all.plot_script, &all.icon]
        .into_iter()
        .find(|asset| asset.path == path)
}

fn asset(name: &str, extension: &'static str, body: &'static [u8]) -> Asset {
    let kind = match extension {
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/javascript; charset=utf-8",
    };
    Asset { path: format!("/assets/{name}-{:016x}.{extension}", mark(body)), kind, body }
}

/// FNV-1a: it only has to differ when the content does.
fn mark(body: &[u8]) -> u64 {
    body.iter().fold(0xcbf2_9ce4_8422_2325, |mark, byte| {
        (mark ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_found_where_pages_look_for_it() {
        let all = assets();
        for asset in [&all.style, &all.script, &all.plot_style, &all.plot_script, &all.icon] {
            assert_eq!(find(&asset.path).map(|it| it.body.len()), Some(asset.body.len()));
        }
        assert!(find("/assets/../etc/passwd").is_none());
    }

    /// Nothing is asked of another host, and nothing is run that came as text.
    #[test]
    fn nothing_comes_from_elsewhere() {
        let all = assets();
        for asset in [&all.style, &all.script, &all.plot_style] {
            let text = String::from_utf8_lossy(asset.body);
            for word in ["http:", "https:", "eval(", "@import", "url("] {
                assert!(!text.contains(word), "{}: {word}", asset.path);
            }
        }
    }
}
