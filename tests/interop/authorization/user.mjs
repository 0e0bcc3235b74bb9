// The user of a test: signs in at the authorization server and returns where the browser would be sent back to.

/** Follows the redirects of an authorization until they leave the authorization server, as a browser with cookies does. */
export async function agree(authorizationUrl) {
  const { origin } = authorizationUrl;
  const cookies = new Map();
  for (let url = authorizationUrl, hops = 0; hops < 20; hops++) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
    for (const set of response.headers.getSetCookie()) {
      const [pair] = set.split(';');
      const at = pair.indexOf('=');
      cookies.set(pair.slice(0, at), pair.slice(at + 1));
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${url} has no redirect, but ${response.status} ${await response.text()}`);
    url = new URL(location, url);
    if (url.origin !== origin) return url;
  }
  throw new Error('the redirects do not end');
}
